// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control flow of a function: basic blocks, loops, and what the shortest and the longest pass
//! through a loop contain.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
};

use super::disassembly::Function;

/// The basic blocks of a function, numbered by address, with their successors and predecessors.
pub struct Flow {
    blocks: Vec<Range<usize>>,
    next: Vec<Vec<usize>>,
    previous: Vec<Vec<usize>>,
}

/// A natural loop, which is entered only at its first block.
pub struct Loop {
    head: usize,
    /// Its blocks in an order in which each follows its predecessors, ignoring jumps back.
    order: Vec<usize>,
    /// The blocks of loops inside it.
    inner: BTreeSet<usize>,
}

impl Flow {
    /// Analyses a function. A jump to an unknown address is an error. A jump out of the function
    /// ends a path.
    pub fn analyse(function: &Function<'_>) -> Result<Self, String> {
        let code = &function.code;
        let index_of: BTreeMap<u64, usize> = code
            .iter()
            .enumerate()
            .map(|(index, instruction)| (instruction.address, index))
            .collect();
        let mut starts = BTreeSet::from([0, code.len()]);
        for (index, instruction) in code.iter().enumerate() {
            if instruction.is_jump() {
                let target = instruction.target().ok_or_else(|| {
                    format!(
                        "{} has a jump through a table at {:x}, which cannot be followed",
                        function.name, instruction.address
                    )
                })?;
                starts.extend(index_of.get(&target));
            }
            if instruction.is_jump() || instruction.ends_path() {
                starts.insert(index + 1);
            }
        }
        let starts: Vec<usize> = starts.into_iter().collect();
        let blocks: Vec<Range<usize>> = starts.windows(2).map(|w| w[0]..w[1]).collect();
        let block_at = |index: usize| starts.binary_search(&index).ok();

        let mut next = vec![Vec::new(); blocks.len()];
        let mut previous = vec![Vec::new(); blocks.len()];
        for (block, range) in blocks.iter().enumerate() {
            let last = &code[range.end - 1];
            let target = last
                .target()
                .filter(|_| last.is_jump())
                .and_then(|target| block_at(*index_of.get(&target)?));
            let below = (!last.ends_path() && block + 1 < blocks.len()).then_some(block + 1);
            for follower in target.into_iter().chain(below) {
                next[block].push(follower);
                previous[follower].push(block);
            }
        }
        Ok(Self {
            blocks,
            next,
            previous,
        })
    }

    /// Returns all loops, in the order of their heads' addresses.
    pub fn loops(&self) -> Vec<Loop> {
        let dominator = self.dominators();
        // A jump back goes to a block that is on every path from the entry to the jump.
        let mut bodies: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (block, next) in self.next.iter().enumerate() {
            for &head in next {
                if dominates(&dominator, head, block) {
                    let body = bodies.entry(head).or_insert_with(|| BTreeSet::from([head]));
                    self.add_all_before(block, body);
                }
            }
        }
        let inner = |head: usize, body: &BTreeSet<usize>| {
            let nested = bodies
                .iter()
                .filter(|(other, _)| **other != head && body.contains(other));
            nested.flat_map(|(_, body)| body).copied().collect()
        };
        bodies
            .iter()
            .map(|(&head, body)| Loop {
                head,
                order: self.order_from(head, |block| body.contains(&block)),
                inner: inner(head, body),
            })
            .collect()
    }

    /// Adds `block` and all its predecessors, up to those that are in `body` already.
    fn add_all_before(&self, block: usize, body: &mut BTreeSet<usize>) {
        let mut open = vec![block];
        while let Some(block) = open.pop() {
            if body.insert(block) {
                open.extend(&self.previous[block]);
            }
        }
    }

    /// Returns for each block its immediate dominator, the last other block on every path from the
    /// entry (Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001). It is `None`
    /// for the entry and for unreachable blocks.
    fn dominators(&self) -> Vec<Option<usize>> {
        let order = self.order_from(0, |_| true);
        let mut rank = vec![usize::MAX; self.blocks.len()];
        for (at, &block) in order.iter().enumerate() {
            rank[block] = at;
        }
        let mut dominator: Vec<Option<usize>> = vec![None; self.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for &block in order.iter().skip(1) {
                let known = self.previous[block]
                    .iter()
                    .copied()
                    .filter(|&p| p == order[0] || dominator[p].is_some());
                let common = known.reduce(|mut a, mut b| {
                    while a != b {
                        let later = if rank[a] > rank[b] { &mut a } else { &mut b };
                        *later = dominator[*later].expect("the entry has the lowest rank");
                    }
                    a
                });
                if dominator[block] != common {
                    dominator[block] = common;
                    changed = true;
                }
            }
        }
        dominator
    }

    /// Returns the blocks that can be reached from `start` through blocks for which `may` is true,
    /// in an order in which each precedes its successors, ignoring jumps back.
    fn order_from(&self, start: usize, may: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut seen = vec![false; self.blocks.len()];
        seen[start] = true;
        let mut finished = Vec::new();
        // Each block with the number of its successors that have been visited.
        let mut path = vec![(start, 0)];
        while let Some((block, done)) = path.last_mut() {
            if let Some(&follower) = self.next[*block].get(*done) {
                *done += 1;
                if !seen[follower] && may(follower) {
                    seen[follower] = true;
                    path.push((follower, 0));
                }
            } else {
                finished.push(*block);
                path.pop();
            }
        }
        finished.reverse();
        finished
    }

    /// Returns the instruction indices of a block.
    pub fn instructions(&self, block: usize) -> Range<usize> {
        self.blocks[block].clone()
    }

    /// Returns the blocks that may follow a block.
    pub fn next(&self, block: usize) -> &[usize] {
        &self.next[block]
    }

    /// Returns the index of a loop's first instruction.
    pub fn start(&self, body: &Loop) -> usize {
        self.blocks[body.head].start
    }

    /// Whether `inner` is a different loop inside `outer`.
    pub fn is_inside(inner: &Loop, outer: &Loop) -> bool {
        inner.head != outer.head && outer.order.contains(&inner.head)
    }

    /// Returns the minimum and the maximum, over all passes through a loop, of each number that
    /// `count` returns for an instruction index. Instructions of inner loops are not counted.
    pub fn extremes<const N: usize>(
        &self,
        body: &Loop,
        count: impl Fn(usize) -> [u32; N],
    ) -> [Span; N] {
        // The sums up to the end of each block.
        let mut until: BTreeMap<usize, [Span; N]> = BTreeMap::new();
        let mut whole = None;
        for &block in &body.order {
            let ways_here = self.previous[block]
                .iter()
                .filter(|_| block != body.head)
                .filter_map(|before| until.get(before).copied());
            let mut sum = ways_here.reduce(either).unwrap_or([Span::default(); N]);
            if !body.inner.contains(&block) {
                for instruction in self.blocks[block].clone() {
                    for (sum, more) in sum.iter_mut().zip(count(instruction)) {
                        sum.least += more;
                        sum.most += more;
                    }
                }
            }
            if self.next[block].contains(&body.head) {
                whole = Some(whole.map_or(sum, |whole| either(whole, sum)));
            }
            until.insert(block, sum);
        }
        whole.expect("a loop comes back to its head")
    }

    /// Returns the instruction indices of the pass through a loop with the fewest instructions,
    /// without those of inner loops.
    pub fn shortest(&self, body: &Loop) -> Vec<usize> {
        let mut until: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut whole: Option<Vec<usize>> = None;
        for &block in &body.order {
            let ways_here = self.previous[block]
                .iter()
                .filter(|_| block != body.head)
                .filter_map(|before| until.get(before));
            let mut way = ways_here
                .min_by_key(|way| way.len())
                .cloned()
                .unwrap_or_default();
            if !body.inner.contains(&block) {
                way.extend(self.blocks[block].clone());
            }
            let is_shorter = whole.as_ref().is_none_or(|whole| way.len() < whole.len());
            if self.next[block].contains(&body.head) && is_shorter {
                whole = Some(way.clone());
            }
            until.insert(block, way);
        }
        whole.expect("a loop comes back to its head")
    }
}

/// The minimum and the maximum of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub least: u32,
    pub most: u32,
}

impl Span {
    pub fn is(self, number: u32) -> bool {
        self.least == number && self.most == number
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            self.least.fmt(f)
        } else {
            write!(f, "{} to {}", self.least, self.most)
        }
    }
}

fn either<const N: usize>(a: [Span; N], b: [Span; N]) -> [Span; N] {
    std::array::from_fn(|i| Span {
        least: a[i].least.min(b[i].least),
        most: a[i].most.max(b[i].most),
    })
}

fn dominates(dominator: &[Option<usize>], above: usize, block: usize) -> bool {
    let mut at = Some(block);
    while let Some(block) = at {
        if block == above {
            return true;
        }
        at = dominator[block];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{
        super::disassembly::{Instruction, functions},
        *,
    };

    /// Two nested loops. The inner one contains a branch, and the function ends with panics.
    const NESTED: &str = "\
0000000000001000 <f>:
    1000:\tpush   rbx
    1001:\ttest   rdi,rdi
    1002:\tje     100d <f+0xd>
    1003:\tvpxor  xmm0,xmm0,xmm0
    1004:\tvaesenc zmm1,zmm1,zmm2
    1005:\ttest   al,al
    1006:\tje     1008 <f+0x8>
    1007:\tvmovntdq ZMMWORD PTR [rsi],zmm1
    1008:\tdec    rcx
    1009:\tjne    1004 <f+0x4>
    100a:\tdec    rdx
    100b:\tja     1011 <f+0x11>
    100c:\tjne    1003 <f+0x3>
    100d:\tpop    rbx
    100e:\tret
    1011:\tcall   2000 <core::panicking::panic>
    1012:\tjmp    1003 <f+0x3>
";

    fn spans(text: &str, count: impl Fn(&Instruction<'_>) -> u32) -> Vec<Span> {
        let functions = functions(text, "");
        let flow = Flow::analyse(&functions[0]).unwrap();
        let loops = flow.loops();
        let count = |i: usize| [count(&functions[0].code[i])];
        let spans = loops.iter().map(|body| flow.extremes(body, count)[0]);
        spans.collect()
    }

    fn span(least: u32, most: u32) -> Span {
        Span { least, most }
    }

    #[test]
    fn each_loop_counts_by_itself() {
        // The outer loop has 4 instructions of its own, the inner one 5 or 6.
        assert_eq!(spans(NESTED, |_| 1), [span(4, 4), span(5, 6)]);
        let aes = |i: &Instruction<'_>| u32::from(i.is_aes());
        assert_eq!(spans(NESTED, aes), [span(0, 0), span(1, 1)]);
        let stores = |i: &Instruction<'_>| u32::from(i.is_store());
        assert_eq!(spans(NESTED, stores), [span(0, 0), span(0, 1)]);
    }

    #[test]
    fn the_shortest_pass_takes_no_detour() {
        let functions = functions(NESTED, "");
        let flow = Flow::analyse(&functions[0]).unwrap();
        let shortest: Vec<_> = flow.loops().iter().map(|l| flow.shortest(l)).collect();
        assert_eq!(shortest, [[3, 10, 11, 12].as_slice(), &[4, 5, 6, 8, 9]]);
    }

    #[test]
    fn a_loop_begins_at_its_head() {
        let functions = functions(NESTED, "");
        let flow = Flow::analyse(&functions[0]).unwrap();
        let starts = flow
            .loops()
            .iter()
            .map(|body| flow.start(body))
            .collect::<Vec<_>>();
        assert_eq!(starts, [3, 4]);
    }

    #[test]
    fn panics_end_a_path() {
        // Otherwise the jump after them would be a jump back.
        let returning = NESTED.replace("core::panicking::panic", "g");
        assert_eq!(spans(&returning, |_| 1)[0], span(4, 5));
    }

    #[test]
    fn a_jump_by_a_table_is_an_error() {
        let text = NESTED.replace("jmp    1003 <f+0x3>", "notrack jmp rax");
        let functions = functions(&text, "");
        let error = Flow::analyse(&functions[0]).err().unwrap();
        assert_eq!(
            error,
            "f has a jump through a table at 1012, which cannot be followed"
        );
    }
}
