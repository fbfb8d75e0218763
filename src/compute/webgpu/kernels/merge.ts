// Joins what several workgroups have gathered for the same queries, segment after segment.
//
// A merge's words: first row of the sequence, first and end query, as in its items; first item and number of items.

import { type AttendShape, laneWords, partFloats, queryLanes, writeOutput } from './attention.ts';
import { repeat } from './repeat.ts';
import { joinParts, NOTHING, partOf, sinkBuffer, wholeOf } from './softmax.ts';
import { planReader } from './step-layout.ts';

/** Bindings: step, parts, output, sinks (where there are any). */
export function mergeKernel(shape: AttendShape): string {
  const { headCount, kvHeadCount, layout } = shape;
  const group = headCount / kvHeadCount;
  const values = laneWords(layout) * layout.perWord;
  const floats = partFloats(layout);
  const lanes = queryLanes(headCount, kvHeadCount);
  const each = (line: (index: number) => string) => repeat(values, line);
  return /* wgsl */ `
${planReader(0, shape.plan)}
@group(0) @binding(1) var<storage, read> parts: array<f32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;
${sinkBuffer(shape, 3)}
@compute @workgroup_size(${lanes * 32})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) index: u32) {
  if (workgroup.x >= mergeCount()) { return; }
  let merge = mergeAt(workgroup.x);
  let query = step[merge + 1u] + index / 32u;
  if (query >= step[merge + 2u]) { return; }
  let lane = index % 32u;
  let row = step[merge] + query / ${group}u;
  let head = workgroup.y * ${group}u + query % ${group}u;
  var M = ${NOTHING}; var L = 0.0;
${each((i) => `  var ACC${i} = 0.0;`)}
  let firstItem = step[merge + 3u];
  for (var item = firstItem; item < firstItem + step[merge + 4u]; item++) {
    let base = ((item * ${kvHeadCount}u + workgroup.y) * ${lanes}u + index / 32u) * ${floats}u;
    let m = parts[base + ${values * 32}u];
    let l = parts[base + ${values * 32 + 1}u];
${each((i) => `    let acc${i} = parts[base + ${i}u * 32u + lane];`)}
    ${joinParts(wholeOf(values), partOf(values))}
  }
${writeOutput(shape)}
}
`;
}
