// Candidates in workgroup memory put in order: larger keys first, of equal ones lower ids. A bitonic sort; and where only
// the first is wanted, a search for it.

import { LIST_LENGTH } from './sampling-layout.ts';

/** Declares `keys` and `ids`, `sortCandidates` and `findFirst`, which all threads call together and which end with a barrier. */
export function sortCandidates(threads: number): string {
  return /* wgsl */ `
var<workgroup> keys: array<u32, ${LIST_LENGTH}>;
var<workgroup> ids: array<u32, ${LIST_LENGTH}>;
fn isBefore(a: u32, b: u32) -> bool { return keys[a] > keys[b] || (keys[a] == keys[b] && ids[a] < ids[b]); }
fn findFirst(thread: u32) {
  for (var half = ${LIST_LENGTH / 2}u; half > 0u; half >>= 1u) {
    for (var at = thread; at < half; at += ${threads}u) {
      if (isBefore(at + half, at)) {
        keys[at] = keys[at + half];
        ids[at] = ids[at + half];
      }
    }
    workgroupBarrier();
  }
}
fn sortCandidates(thread: u32) {
  for (var size = 2u; size <= ${LIST_LENGTH}u; size <<= 1u) {
    for (var stride = size >> 1u; stride > 0u; stride >>= 1u) {
      for (var pair = thread; pair < ${LIST_LENGTH / 2}u; pair += ${threads}u) {
        let a = 2u * pair - (pair & (stride - 1u));
        let b = a + stride;
        if (isBefore(a, b) != ((a & size) == 0u)) {
          let key = keys[a];
          let id = ids[a];
          keys[a] = keys[b];
          ids[a] = ids[b];
          keys[b] = key;
          ids[b] = id;
        }
      }
      workgroupBarrier();
    }
  }
}
`;
}
