// SPDX-License-Identifier: MIT OR Apache-2.0
// Known answers from the files in `vectors/`.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "plain.h"

namespace vectors {

// Returns the encryption records of a file of `NAME = VALUE` lines. Each record begins with COUNT.
inline std::vector<std::map<std::string, std::string>> records(const std::string &path)
{
    std::ifstream file(path);
    std::vector<std::map<std::string, std::string>> found;
    std::string line;
    bool encryption = false;
    while (std::getline(file, line)) {
        if (!line.empty() && line[0] == '[') {
            encryption = line.compare(0, 9, "[ENCRYPT]") == 0;
        }
        const std::size_t at = line.find(" = ");
        if (!encryption || line[0] == '#' || at == std::string::npos) {
            continue;
        }
        if (line.compare(0, at, "COUNT") == 0) {
            found.emplace_back();
        }
        found.back()[line.substr(0, at)] = line.substr(at + 3);
    }
    if (found.empty()) {
        std::fprintf(stderr, "FAILED: no vectors in %s\n", path.c_str());
        std::exit(1);
    }
    return found;
}

inline plain::Bytes from_hex(const std::string &hex)
{
    plain::Bytes bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

} // namespace vectors
