// What a sample needs of a row, one workgroup a row: the likeliest token, the sum of all weights, and the first
// candidates in order. The processor finishes the sample with the sampling oracle's own functions (finish-sampling.ts).
//
// The first pass finds the largest logit of each of 1024 groups of tokens. At least as many tokens as the threshold's
// place among these reach the threshold, and not many more, for likely tokens lie scattered. The second pass weighs all
// tokens and lists those.

import {
  HEAD_WORDS,
  headWords,
  JOB_WORDS,
  JOBS_PER_ROW,
  jobKinds,
  jobWords,
  LIST_LENGTH,
  LIST_WORDS,
} from '../../device-sampling/sampling-layout.ts';
import { adjustLogits } from './adjust-logits.ts';
import { plainLogits, weights } from './logit-weights.ts';
import { repeat } from './wgsl.ts';

const GROUPS = LIST_LENGTH;
/** Candidates that are listed at least, where there are as many. */
export const LISTED_AT_LEAST = 512;
/** Tokens that a thread loads at once. */
const AHEAD = 4;
/** Sums that threads add to, lest all wait for one another. */
const SUMS = 32;

/** Threads of a workgroup: each has a whole number of groups. */
export const samplingThreads = (most: number): number => (most >= 1024 ? 1024 : most >= 512 ? 512 : 256);

/** Bindings: samples, logits, saved, found. */
export function firstCandidatesKernel(threads: number): string {
  return /* wgsl */ `
@group(0) @binding(0) var<storage, read> samples: array<u32>;
@group(0) @binding(1) var<storage, read_write> logits: array<u32>;
@group(0) @binding(2) var<storage, read_write> saved: array<u32>;
@group(0) @binding(3) var<storage, read_write> found: array<u32>;
var<workgroup> listed: atomic<u32>;
var<workgroup> isOdd: atomic<u32>;
var<workgroup> sums: array<atomic<u32>, ${2 * SUMS}>;
${plainLogits}
${weights}
${adjustLogits(threads)}
${sortCandidates(threads)}
fn isAllowed(mask: u32, token: u32) -> bool {
  return mask == 0u || ((samples[mask + (token >> 5u)] >> (token & 31u)) & 1u) == 1u;
}
fn bitsAt(base: u32, token: u32, vocabSize: u32) -> u32 {
  return select(excluded, logits[base + min(token, vocabSize - 1u)], token < vocabSize);
}
${findGroups(threads)}
${weighAll(threads)}
fn work(job: u32, base: u32, head: u32, list: u32, thread: u32) {
  let zero = samples[job + ${jobWords.zero}u];
  if (thread < ${2 * SUMS}u) { atomicStore(&sums[thread], 0u); }
  if (thread == 0u) {
    atomicStore(&listed, 0u);
    atomicStore(&isOdd, 0u);
  }
  adjust(job, base, thread, zero);
  workgroupBarrier();
  findGroups(job, base, thread);
  workgroupBarrier();
  let wantsList = samples[job + ${jobWords.kind}u] == ${jobKinds.candidates}u;
  if (wantsList) { sortCandidates(thread); } else { findFirst(thread); }
  let highest = keys[0];
  // A list that holds every token needs no threshold.
  let holdsAll = samples[job + ${jobWords.vocabSize}u] <= ${LIST_LENGTH}u;
  let threshold = max(select(keys[${LISTED_AT_LEAST - 1}u], 0u, holdsAll), nothing + 1u);
  if (thread == 0u) {
    found[head + ${headWords.token}u] = ids[0];
    found[head + ${headWords.logit}u] = fromKey(highest);
    found[head + ${headWords.odd}u] = atomicLoad(&isOdd);
  }
  workgroupBarrier();
  if (wantsList) {
    for (var i = thread; i < ${LIST_LENGTH}u; i += ${threads}u) {
      keys[i] = nothing;
      ids[i] = 0xffffffffu;
    }
    workgroupBarrier();
    weighAll(job, base, thread, bitcast<f32>(fromKey(highest)), threshold);
    workgroupBarrier();
    sortCandidates(thread);
    for (var i = thread; i < ${LIST_LENGTH}u; i += ${threads}u) {
      found[list + 2u * i] = fromKey(keys[i]);
      found[list + 2u * i + 1u] = ids[i];
    }
    if (thread == 0u) {
      found[head + ${headWords.listed}u] = atomicLoad(&listed);
      var sum = vec2<u32>(0u);
      for (var i = 0u; i < ${SUMS}u; i++) {
        sum = add(sum, vec2<u32>(atomicLoad(&sums[i]), atomicLoad(&sums[i + ${SUMS}u])));
      }
      found[head + ${headWords.totalLow}u] = sum.x;
      found[head + ${headWords.totalHigh}u] = sum.y;
    }
  }
  restore(job, base, thread);
  workgroupBarrier();
}
@compute @workgroup_size(${threads})
fn main(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row = workgroup.x;
  let rows = workgroups.x;
  for (var index = 0u; index < ${JOBS_PER_ROW}u; index++) {
    let job = ${JOB_WORDS}u * (${JOBS_PER_ROW}u * row + index);
    let answer = index * rows + row;
    if (samples[job + ${jobWords.kind}u] != ${jobKinds.nothing}u) {
      let list = ${HEAD_WORDS * JOBS_PER_ROW}u * rows + ${LIST_WORDS}u * answer;
      work(job, row * samples[job + ${jobWords.vocabSize}u], ${HEAD_WORDS}u * answer, list, thread);
    }
  }
}
`;
}

/** Group g has the tokens g, g + 1024, g + 2048 and so on; a thread has one group or several. */
function findGroups(threads: number): string {
  const each = GROUPS / threads;
  const groupOf = (i: number) => i % each;
  return /* wgsl */ `
fn findGroups(job: u32, base: u32, thread: u32) {
  let vocabSize = samples[job + ${jobWords.vocabSize}u];
  let mask = samples[job + ${jobWords.mask}u];
  var sawOdd = false;
  ${repeat(each, (group) => `var key${group} = nothing; var id${group} = 0xffffffffu;`)}
  for (var first = thread; first < vocabSize; first += ${AHEAD * threads}u) {
    ${repeat(AHEAD, (i) => `let bits${i} = bitsAt(base, first + ${i * threads}u, vocabSize);`)}
    ${repeat(
      AHEAD,
      (i) => `{
      let token = first + ${i * threads}u;
      sawOdd = sawOdd || !(isPlain(bits${i}) || bits${i} == excluded);
      let key = keyOf(bits${i});
      if (key > key${groupOf(i)} && isAllowed(mask, token)) { key${groupOf(i)} = key; id${groupOf(i)} = token; }
    }`,
    )}
  }
  if (sawOdd) { atomicStore(&isOdd, 1u); }
  ${repeat(each, (group) => `keys[thread + ${group * threads}u] = key${group}; ids[thread + ${group * threads}u] = id${group};`)}
}
`;
}

/** Whole numbers of two words: sums are exact, in whatever order threads come. */
function weighAll(threads: number): string {
  return /* wgsl */ `
fn add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < b.x));
}
fn weighAll(job: u32, base: u32, thread: u32, highest: f32, threshold: u32) {
  let slope = bitcast<f32>(samples[job + ${jobWords.slope}u]);
  let vocabSize = samples[job + ${jobWords.vocabSize}u];
  let mask = samples[job + ${jobWords.mask}u];
  let unitBits = bitcast<i32>(samples[job + ${jobWords.unitBits}u]);
  let zero = samples[job + ${jobWords.zero}u];
  var sum = vec2<u32>(0u);
  for (var first = thread; first < vocabSize; first += ${AHEAD * threads}u) {
    ${repeat(AHEAD, (i) => `let bits${i} = bitsAt(base, first + ${i * threads}u, vocabSize);`)}
    ${repeat(
      AHEAD,
      (i) => `if (bits${i} != excluded) {
      let token = first + ${i * threads}u;
      let key = keyOf(bits${i});
      let scaled = scaleLogit(bitcast<f32>(bits${i}), highest, slope, zero);
      if (scaled >= leastScaled(unitBits) && isAllowed(mask, token)) { sum = add(sum, weightOf(scaled, unitBits, zero)); }
      if (key >= threshold && isAllowed(mask, token)) {
        let place = atomicAdd(&listed, 1u);
        if (place < ${LIST_LENGTH}u) { keys[place] = key; ids[place] = token; }
      }
    }`,
    )}
  }
  let slot = thread & ${SUMS - 1}u;
  let low = atomicAdd(&sums[slot], sum.x);
  let carry = select(0u, 1u, low + sum.x < low);
  atomicAdd(&sums[slot + ${SUMS}u], sum.y + carry);
}
`;
}

/**
 * Declares `keys` and `ids`, candidates in workgroup memory, and two functions that all threads call together and that end
 * with a barrier: `sortCandidates`, a bitonic sort, larger keys first, of equal ones lower ids; and `findFirst`.
 */
function sortCandidates(threads: number): string {
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
