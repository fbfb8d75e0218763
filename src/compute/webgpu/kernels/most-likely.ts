// The likeliest token of each wanted row, one workgroup a row: the largest logit, of equal ones the first, as the
// sampling oracle draws where the temperature is 0.

import { stepReader } from './step-layout.ts';

/** What stands in a token's place where none can be drawn. */
export const NUMERIC_ERROR = 0xffffffff;
export const NO_CANDIDATE = 0xfffffffe;

const THREADS = 256;

/** Bindings: step, logits, tokens. */
export function mostLikelyKernel(vocabSize: number): string {
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> tokens: array<u32>;
var<workgroup> values: array<f32, ${THREADS}>;
var<workgroup> ids: array<u32, ${THREADS}>;
var<workgroup> broken: atomic<u32>;
const nothing = -3.4028234e38;
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.x;
  if (row >= wantedCount()) { return; }
  var value = nothing;
  var id = ${NO_CANDIDATE}u;
  var isBroken = false;
  for (var token = thread; token < ${vocabSize}u; token += ${THREADS}u) {
    let logit = logits[row * ${vocabSize}u + token];
    let bits = bitcast<u32>(logit);
    // Minus infinity excludes a token; plus infinity and what is no number spoil the row.
    if ((bits & 0x7f800000u) == 0x7f800000u) { isBroken = isBroken || bits != 0xff800000u; continue; }
    if (id == ${NO_CANDIDATE}u || logit > value) { value = logit; id = token; }
  }
  if (isBroken) { atomicStore(&broken, 1u); }
  values[thread] = value;
  ids[thread] = id;
  workgroupBarrier();
  for (var half = ${THREADS / 2}u; half > 0u; half >>= 1u) {
    if (thread < half) {
      let other = values[thread + half];
      if (other > values[thread] || (other == values[thread] && ids[thread + half] < ids[thread])) {
        values[thread] = other;
        ids[thread] = ids[thread + half];
      }
    }
    workgroupBarrier();
  }
  if (thread == 0u) { tokens[row] = select(ids[0], ${NUMERIC_ERROR}u, atomicLoad(&broken) == 1u); }
}
`;
}
