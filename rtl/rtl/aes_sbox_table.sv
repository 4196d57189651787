// SPDX-License-Identifier: MIT OR Apache-2.0
// The S-box of AES (FIPS-197, 5.1.1) and its inverse (5.3.2) as a table in LUTs, without a
// register. `inverse` is used only for CIPHER_BOTH.
`default_nettype none

module aes_sbox_table #(
    parameter int CIPHER = luxor_pkg::CIPHER_ENC
) (
    input  wire        inverse,
    input  wire  [7:0] x,
    output logic [7:0] y
);
  wire [8:0] index;
  if (CIPHER == luxor_pkg::CIPHER_BOTH) begin : gen_both
    assign index = {inverse, x};
  end else begin : gen_one
    wire unused = &{1'b0, inverse};
    assign index = {CIPHER == luxor_pkg::CIPHER_DEC ? 1'b1 : 1'b0, x};
  end

  // A `case` statement, because simulators turn it into one table in memory.
  always_comb begin
    case (index)
      9'h000: y = 8'h63; 9'h001: y = 8'h7c; 9'h002: y = 8'h77; 9'h003: y = 8'h7b;
      9'h004: y = 8'hf2; 9'h005: y = 8'h6b; 9'h006: y = 8'h6f; 9'h007: y = 8'hc5;
      9'h008: y = 8'h30; 9'h009: y = 8'h01; 9'h00a: y = 8'h67; 9'h00b: y = 8'h2b;
      9'h00c: y = 8'hfe; 9'h00d: y = 8'hd7; 9'h00e: y = 8'hab; 9'h00f: y = 8'h76;
      9'h010: y = 8'hca; 9'h011: y = 8'h82; 9'h012: y = 8'hc9; 9'h013: y = 8'h7d;
      9'h014: y = 8'hfa; 9'h015: y = 8'h59; 9'h016: y = 8'h47; 9'h017: y = 8'hf0;
      9'h018: y = 8'had; 9'h019: y = 8'hd4; 9'h01a: y = 8'ha2; 9'h01b: y = 8'haf;
      9'h01c: y = 8'h9c; 9'h01d: y = 8'ha4; 9'h01e: y = 8'h72; 9'h01f: y = 8'hc0;
      9'h020: y = 8'hb7; 9'h021: y = 8'hfd; 9'h022: y = 8'h93; 9'h023: y = 8'h26;
      9'h024: y = 8'h36; 9'h025: y = 8'h3f; 9'h026: y = 8'hf7; 9'h027: y = 8'hcc;
      9'h028: y = 8'h34; 9'h029: y = 8'ha5; 9'h02a: y = 8'he5; 9'h02b: y = 8'hf1;
      9'h02c: y = 8'h71; 9'h02d: y = 8'hd8; 9'h02e: y = 8'h31; 9'h02f: y = 8'h15;
      9'h030: y = 8'h04; 9'h031: y = 8'hc7; 9'h032: y = 8'h23; 9'h033: y = 8'hc3;
      9'h034: y = 8'h18; 9'h035: y = 8'h96; 9'h036: y = 8'h05; 9'h037: y = 8'h9a;
      9'h038: y = 8'h07; 9'h039: y = 8'h12; 9'h03a: y = 8'h80; 9'h03b: y = 8'he2;
      9'h03c: y = 8'heb; 9'h03d: y = 8'h27; 9'h03e: y = 8'hb2; 9'h03f: y = 8'h75;
      9'h040: y = 8'h09; 9'h041: y = 8'h83; 9'h042: y = 8'h2c; 9'h043: y = 8'h1a;
      9'h044: y = 8'h1b; 9'h045: y = 8'h6e; 9'h046: y = 8'h5a; 9'h047: y = 8'ha0;
      9'h048: y = 8'h52; 9'h049: y = 8'h3b; 9'h04a: y = 8'hd6; 9'h04b: y = 8'hb3;
      9'h04c: y = 8'h29; 9'h04d: y = 8'he3; 9'h04e: y = 8'h2f; 9'h04f: y = 8'h84;
      9'h050: y = 8'h53; 9'h051: y = 8'hd1; 9'h052: y = 8'h00; 9'h053: y = 8'hed;
      9'h054: y = 8'h20; 9'h055: y = 8'hfc; 9'h056: y = 8'hb1; 9'h057: y = 8'h5b;
      9'h058: y = 8'h6a; 9'h059: y = 8'hcb; 9'h05a: y = 8'hbe; 9'h05b: y = 8'h39;
      9'h05c: y = 8'h4a; 9'h05d: y = 8'h4c; 9'h05e: y = 8'h58; 9'h05f: y = 8'hcf;
      9'h060: y = 8'hd0; 9'h061: y = 8'hef; 9'h062: y = 8'haa; 9'h063: y = 8'hfb;
      9'h064: y = 8'h43; 9'h065: y = 8'h4d; 9'h066: y = 8'h33; 9'h067: y = 8'h85;
      9'h068: y = 8'h45; 9'h069: y = 8'hf9; 9'h06a: y = 8'h02; 9'h06b: y = 8'h7f;
      9'h06c: y = 8'h50; 9'h06d: y = 8'h3c; 9'h06e: y = 8'h9f; 9'h06f: y = 8'ha8;
      9'h070: y = 8'h51; 9'h071: y = 8'ha3; 9'h072: y = 8'h40; 9'h073: y = 8'h8f;
      9'h074: y = 8'h92; 9'h075: y = 8'h9d; 9'h076: y = 8'h38; 9'h077: y = 8'hf5;
      9'h078: y = 8'hbc; 9'h079: y = 8'hb6; 9'h07a: y = 8'hda; 9'h07b: y = 8'h21;
      9'h07c: y = 8'h10; 9'h07d: y = 8'hff; 9'h07e: y = 8'hf3; 9'h07f: y = 8'hd2;
      9'h080: y = 8'hcd; 9'h081: y = 8'h0c; 9'h082: y = 8'h13; 9'h083: y = 8'hec;
      9'h084: y = 8'h5f; 9'h085: y = 8'h97; 9'h086: y = 8'h44; 9'h087: y = 8'h17;
      9'h088: y = 8'hc4; 9'h089: y = 8'ha7; 9'h08a: y = 8'h7e; 9'h08b: y = 8'h3d;
      9'h08c: y = 8'h64; 9'h08d: y = 8'h5d; 9'h08e: y = 8'h19; 9'h08f: y = 8'h73;
      9'h090: y = 8'h60; 9'h091: y = 8'h81; 9'h092: y = 8'h4f; 9'h093: y = 8'hdc;
      9'h094: y = 8'h22; 9'h095: y = 8'h2a; 9'h096: y = 8'h90; 9'h097: y = 8'h88;
      9'h098: y = 8'h46; 9'h099: y = 8'hee; 9'h09a: y = 8'hb8; 9'h09b: y = 8'h14;
      9'h09c: y = 8'hde; 9'h09d: y = 8'h5e; 9'h09e: y = 8'h0b; 9'h09f: y = 8'hdb;
      9'h0a0: y = 8'he0; 9'h0a1: y = 8'h32; 9'h0a2: y = 8'h3a; 9'h0a3: y = 8'h0a;
      9'h0a4: y = 8'h49; 9'h0a5: y = 8'h06; 9'h0a6: y = 8'h24; 9'h0a7: y = 8'h5c;
      9'h0a8: y = 8'hc2; 9'h0a9: y = 8'hd3; 9'h0aa: y = 8'hac; 9'h0ab: y = 8'h62;
      9'h0ac: y = 8'h91; 9'h0ad: y = 8'h95; 9'h0ae: y = 8'he4; 9'h0af: y = 8'h79;
      9'h0b0: y = 8'he7; 9'h0b1: y = 8'hc8; 9'h0b2: y = 8'h37; 9'h0b3: y = 8'h6d;
      9'h0b4: y = 8'h8d; 9'h0b5: y = 8'hd5; 9'h0b6: y = 8'h4e; 9'h0b7: y = 8'ha9;
      9'h0b8: y = 8'h6c; 9'h0b9: y = 8'h56; 9'h0ba: y = 8'hf4; 9'h0bb: y = 8'hea;
      9'h0bc: y = 8'h65; 9'h0bd: y = 8'h7a; 9'h0be: y = 8'hae; 9'h0bf: y = 8'h08;
      9'h0c0: y = 8'hba; 9'h0c1: y = 8'h78; 9'h0c2: y = 8'h25; 9'h0c3: y = 8'h2e;
      9'h0c4: y = 8'h1c; 9'h0c5: y = 8'ha6; 9'h0c6: y = 8'hb4; 9'h0c7: y = 8'hc6;
      9'h0c8: y = 8'he8; 9'h0c9: y = 8'hdd; 9'h0ca: y = 8'h74; 9'h0cb: y = 8'h1f;
      9'h0cc: y = 8'h4b; 9'h0cd: y = 8'hbd; 9'h0ce: y = 8'h8b; 9'h0cf: y = 8'h8a;
      9'h0d0: y = 8'h70; 9'h0d1: y = 8'h3e; 9'h0d2: y = 8'hb5; 9'h0d3: y = 8'h66;
      9'h0d4: y = 8'h48; 9'h0d5: y = 8'h03; 9'h0d6: y = 8'hf6; 9'h0d7: y = 8'h0e;
      9'h0d8: y = 8'h61; 9'h0d9: y = 8'h35; 9'h0da: y = 8'h57; 9'h0db: y = 8'hb9;
      9'h0dc: y = 8'h86; 9'h0dd: y = 8'hc1; 9'h0de: y = 8'h1d; 9'h0df: y = 8'h9e;
      9'h0e0: y = 8'he1; 9'h0e1: y = 8'hf8; 9'h0e2: y = 8'h98; 9'h0e3: y = 8'h11;
      9'h0e4: y = 8'h69; 9'h0e5: y = 8'hd9; 9'h0e6: y = 8'h8e; 9'h0e7: y = 8'h94;
      9'h0e8: y = 8'h9b; 9'h0e9: y = 8'h1e; 9'h0ea: y = 8'h87; 9'h0eb: y = 8'he9;
      9'h0ec: y = 8'hce; 9'h0ed: y = 8'h55; 9'h0ee: y = 8'h28; 9'h0ef: y = 8'hdf;
      9'h0f0: y = 8'h8c; 9'h0f1: y = 8'ha1; 9'h0f2: y = 8'h89; 9'h0f3: y = 8'h0d;
      9'h0f4: y = 8'hbf; 9'h0f5: y = 8'he6; 9'h0f6: y = 8'h42; 9'h0f7: y = 8'h68;
      9'h0f8: y = 8'h41; 9'h0f9: y = 8'h99; 9'h0fa: y = 8'h2d; 9'h0fb: y = 8'h0f;
      9'h0fc: y = 8'hb0; 9'h0fd: y = 8'h54; 9'h0fe: y = 8'hbb; 9'h0ff: y = 8'h16;
      9'h100: y = 8'h52; 9'h101: y = 8'h09; 9'h102: y = 8'h6a; 9'h103: y = 8'hd5;
      9'h104: y = 8'h30; 9'h105: y = 8'h36; 9'h106: y = 8'ha5; 9'h107: y = 8'h38;
      9'h108: y = 8'hbf; 9'h109: y = 8'h40; 9'h10a: y = 8'ha3; 9'h10b: y = 8'h9e;
      9'h10c: y = 8'h81; 9'h10d: y = 8'hf3; 9'h10e: y = 8'hd7; 9'h10f: y = 8'hfb;
      9'h110: y = 8'h7c; 9'h111: y = 8'he3; 9'h112: y = 8'h39; 9'h113: y = 8'h82;
      9'h114: y = 8'h9b; 9'h115: y = 8'h2f; 9'h116: y = 8'hff; 9'h117: y = 8'h87;
      9'h118: y = 8'h34; 9'h119: y = 8'h8e; 9'h11a: y = 8'h43; 9'h11b: y = 8'h44;
      9'h11c: y = 8'hc4; 9'h11d: y = 8'hde; 9'h11e: y = 8'he9; 9'h11f: y = 8'hcb;
      9'h120: y = 8'h54; 9'h121: y = 8'h7b; 9'h122: y = 8'h94; 9'h123: y = 8'h32;
      9'h124: y = 8'ha6; 9'h125: y = 8'hc2; 9'h126: y = 8'h23; 9'h127: y = 8'h3d;
      9'h128: y = 8'hee; 9'h129: y = 8'h4c; 9'h12a: y = 8'h95; 9'h12b: y = 8'h0b;
      9'h12c: y = 8'h42; 9'h12d: y = 8'hfa; 9'h12e: y = 8'hc3; 9'h12f: y = 8'h4e;
      9'h130: y = 8'h08; 9'h131: y = 8'h2e; 9'h132: y = 8'ha1; 9'h133: y = 8'h66;
      9'h134: y = 8'h28; 9'h135: y = 8'hd9; 9'h136: y = 8'h24; 9'h137: y = 8'hb2;
      9'h138: y = 8'h76; 9'h139: y = 8'h5b; 9'h13a: y = 8'ha2; 9'h13b: y = 8'h49;
      9'h13c: y = 8'h6d; 9'h13d: y = 8'h8b; 9'h13e: y = 8'hd1; 9'h13f: y = 8'h25;
      9'h140: y = 8'h72; 9'h141: y = 8'hf8; 9'h142: y = 8'hf6; 9'h143: y = 8'h64;
      9'h144: y = 8'h86; 9'h145: y = 8'h68; 9'h146: y = 8'h98; 9'h147: y = 8'h16;
      9'h148: y = 8'hd4; 9'h149: y = 8'ha4; 9'h14a: y = 8'h5c; 9'h14b: y = 8'hcc;
      9'h14c: y = 8'h5d; 9'h14d: y = 8'h65; 9'h14e: y = 8'hb6; 9'h14f: y = 8'h92;
      9'h150: y = 8'h6c; 9'h151: y = 8'h70; 9'h152: y = 8'h48; 9'h153: y = 8'h50;
      9'h154: y = 8'hfd; 9'h155: y = 8'hed; 9'h156: y = 8'hb9; 9'h157: y = 8'hda;
      9'h158: y = 8'h5e; 9'h159: y = 8'h15; 9'h15a: y = 8'h46; 9'h15b: y = 8'h57;
      9'h15c: y = 8'ha7; 9'h15d: y = 8'h8d; 9'h15e: y = 8'h9d; 9'h15f: y = 8'h84;
      9'h160: y = 8'h90; 9'h161: y = 8'hd8; 9'h162: y = 8'hab; 9'h163: y = 8'h00;
      9'h164: y = 8'h8c; 9'h165: y = 8'hbc; 9'h166: y = 8'hd3; 9'h167: y = 8'h0a;
      9'h168: y = 8'hf7; 9'h169: y = 8'he4; 9'h16a: y = 8'h58; 9'h16b: y = 8'h05;
      9'h16c: y = 8'hb8; 9'h16d: y = 8'hb3; 9'h16e: y = 8'h45; 9'h16f: y = 8'h06;
      9'h170: y = 8'hd0; 9'h171: y = 8'h2c; 9'h172: y = 8'h1e; 9'h173: y = 8'h8f;
      9'h174: y = 8'hca; 9'h175: y = 8'h3f; 9'h176: y = 8'h0f; 9'h177: y = 8'h02;
      9'h178: y = 8'hc1; 9'h179: y = 8'haf; 9'h17a: y = 8'hbd; 9'h17b: y = 8'h03;
      9'h17c: y = 8'h01; 9'h17d: y = 8'h13; 9'h17e: y = 8'h8a; 9'h17f: y = 8'h6b;
      9'h180: y = 8'h3a; 9'h181: y = 8'h91; 9'h182: y = 8'h11; 9'h183: y = 8'h41;
      9'h184: y = 8'h4f; 9'h185: y = 8'h67; 9'h186: y = 8'hdc; 9'h187: y = 8'hea;
      9'h188: y = 8'h97; 9'h189: y = 8'hf2; 9'h18a: y = 8'hcf; 9'h18b: y = 8'hce;
      9'h18c: y = 8'hf0; 9'h18d: y = 8'hb4; 9'h18e: y = 8'he6; 9'h18f: y = 8'h73;
      9'h190: y = 8'h96; 9'h191: y = 8'hac; 9'h192: y = 8'h74; 9'h193: y = 8'h22;
      9'h194: y = 8'he7; 9'h195: y = 8'had; 9'h196: y = 8'h35; 9'h197: y = 8'h85;
      9'h198: y = 8'he2; 9'h199: y = 8'hf9; 9'h19a: y = 8'h37; 9'h19b: y = 8'he8;
      9'h19c: y = 8'h1c; 9'h19d: y = 8'h75; 9'h19e: y = 8'hdf; 9'h19f: y = 8'h6e;
      9'h1a0: y = 8'h47; 9'h1a1: y = 8'hf1; 9'h1a2: y = 8'h1a; 9'h1a3: y = 8'h71;
      9'h1a4: y = 8'h1d; 9'h1a5: y = 8'h29; 9'h1a6: y = 8'hc5; 9'h1a7: y = 8'h89;
      9'h1a8: y = 8'h6f; 9'h1a9: y = 8'hb7; 9'h1aa: y = 8'h62; 9'h1ab: y = 8'h0e;
      9'h1ac: y = 8'haa; 9'h1ad: y = 8'h18; 9'h1ae: y = 8'hbe; 9'h1af: y = 8'h1b;
      9'h1b0: y = 8'hfc; 9'h1b1: y = 8'h56; 9'h1b2: y = 8'h3e; 9'h1b3: y = 8'h4b;
      9'h1b4: y = 8'hc6; 9'h1b5: y = 8'hd2; 9'h1b6: y = 8'h79; 9'h1b7: y = 8'h20;
      9'h1b8: y = 8'h9a; 9'h1b9: y = 8'hdb; 9'h1ba: y = 8'hc0; 9'h1bb: y = 8'hfe;
      9'h1bc: y = 8'h78; 9'h1bd: y = 8'hcd; 9'h1be: y = 8'h5a; 9'h1bf: y = 8'hf4;
      9'h1c0: y = 8'h1f; 9'h1c1: y = 8'hdd; 9'h1c2: y = 8'ha8; 9'h1c3: y = 8'h33;
      9'h1c4: y = 8'h88; 9'h1c5: y = 8'h07; 9'h1c6: y = 8'hc7; 9'h1c7: y = 8'h31;
      9'h1c8: y = 8'hb1; 9'h1c9: y = 8'h12; 9'h1ca: y = 8'h10; 9'h1cb: y = 8'h59;
      9'h1cc: y = 8'h27; 9'h1cd: y = 8'h80; 9'h1ce: y = 8'hec; 9'h1cf: y = 8'h5f;
      9'h1d0: y = 8'h60; 9'h1d1: y = 8'h51; 9'h1d2: y = 8'h7f; 9'h1d3: y = 8'ha9;
      9'h1d4: y = 8'h19; 9'h1d5: y = 8'hb5; 9'h1d6: y = 8'h4a; 9'h1d7: y = 8'h0d;
      9'h1d8: y = 8'h2d; 9'h1d9: y = 8'he5; 9'h1da: y = 8'h7a; 9'h1db: y = 8'h9f;
      9'h1dc: y = 8'h93; 9'h1dd: y = 8'hc9; 9'h1de: y = 8'h9c; 9'h1df: y = 8'hef;
      9'h1e0: y = 8'ha0; 9'h1e1: y = 8'he0; 9'h1e2: y = 8'h3b; 9'h1e3: y = 8'h4d;
      9'h1e4: y = 8'hae; 9'h1e5: y = 8'h2a; 9'h1e6: y = 8'hf5; 9'h1e7: y = 8'hb0;
      9'h1e8: y = 8'hc8; 9'h1e9: y = 8'heb; 9'h1ea: y = 8'hbb; 9'h1eb: y = 8'h3c;
      9'h1ec: y = 8'h83; 9'h1ed: y = 8'h53; 9'h1ee: y = 8'h99; 9'h1ef: y = 8'h61;
      9'h1f0: y = 8'h17; 9'h1f1: y = 8'h2b; 9'h1f2: y = 8'h04; 9'h1f3: y = 8'h7e;
      9'h1f4: y = 8'hba; 9'h1f5: y = 8'h77; 9'h1f6: y = 8'hd6; 9'h1f7: y = 8'h26;
      9'h1f8: y = 8'he1; 9'h1f9: y = 8'h69; 9'h1fa: y = 8'h14; 9'h1fb: y = 8'h63;
      9'h1fc: y = 8'h55; 9'h1fd: y = 8'h21; 9'h1fe: y = 8'h0c; 9'h1ff: y = 8'h7d;
      default: y = 8'h00;
    endcase
  end
endmodule

`default_nettype wire
