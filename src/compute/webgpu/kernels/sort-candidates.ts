// Candidates in workgroup memory put in order: larger keys first, of equal ones lower ids. A bitonic sort.

import { LIST_LENGTH } from './draw-layout.ts';

/** Declares `keys` and `ids`, and `sortCandidates`, which all threads call together and which ends with a barrier. */
export function sortCandidates(threads: number): string {
  return /* wgsl */ `
var<workgroup> keys: array<u32, ${LIST_LENGTH}>;
var<workgroup> ids: array<u32, ${LIST_LENGTH}>;
fn sortCandidates(thread: u32) {
  for (var size = 2u; size <= ${LIST_LENGTH}u; size <<= 1u) {
    for (var stride = size >> 1u; stride > 0u; stride >>= 1u) {
      for (var pair = thread; pair < ${LIST_LENGTH / 2}u; pair += ${threads}u) {
        let a = 2u * pair - (pair & (stride - 1u));
        let b = a + stride;
        let isOrdered = keys[a] > keys[b] || (keys[a] == keys[b] && ids[a] < ids[b]);
        if (isOrdered != ((a & size) == 0u)) {
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
