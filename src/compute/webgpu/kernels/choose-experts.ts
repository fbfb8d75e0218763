// Which experts a row goes to, and how much each counts; one workgroup a row. An expert is chosen where so few others are
// better: each thread counts them for its experts. Numbers are compared as whole ones, so that there is an order even where
// some are none, and every choice is an expert.

import type { RouterSpec } from '../../../model/spec.ts';
import { sigmoid } from './activation.ts';
import { spoiled } from './spoiled.ts';
import { stepReader } from './step-layout.ts';

interface ChooseShape extends Pick<RouterSpec, 'score' | 'used' | 'groups' | 'normalized' | 'scale'> {
  readonly experts: number;
  /** Whether scores have a bias for the choice, and experts a factor. */
  readonly hasBias: boolean;
  readonly hasScales: boolean;
}

/** Bindings: step, logits, choices (expert, factor), biases and then factors (where there are any). */
export function chooseExpertsKernel(shape: ChooseShape): string {
  const { experts, used, groups, hasBias, hasScales } = shape;
  const threads = Math.min(256, 32 * Math.ceil(experts / 32));
  const each = (text: string) =>
    `  for (var expert = thread; expert < ${experts}u; expert += ${threads}u) {\n${text}\n  }`;
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> choices: array<vec2<u32>>;
${hasBias || hasScales ? '@group(0) @binding(3) var<storage, read> vectors: array<f32>;' : ''}
var<workgroup> scores: array<f32, ${experts}>;
var<workgroup> keys: array<u32, ${experts}>;
var<workgroup> chosen: array<u32, ${used}>;
${spoiled}${sigmoid}
// Larger for larger numbers, the same for both zeros; 0 is left for what cannot be chosen.
fn keyOf(number: f32) -> u32 {
  let bits = bitcast<u32>(number);
  return max(1u, select(select(~bits, bits | 0x80000000u, bits < 0x80000000u), 0x80000000u, bits == 0x80000000u));
}
fn wanted(expert: u32) -> f32 { return scores[expert]${hasBias ? ' + vectors[expert]' : ''}; }
${groups === undefined ? '' : groupChoice(groups, experts)}
@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.x;
  if (row >= rowCount()) { return; }
${each(`    scores[expert] = ${shape.score === 'sigmoid' ? 'sigmoid(' : '('}logits[row * ${experts}u + expert]);`)}
  workgroupBarrier();
${shape.score === 'softmax' ? softmaxText(experts, each) : ''}
${groups === undefined ? '' : `  if (thread < ${groups.count}u) { groupKeys[thread] = groupKey(thread); }\n  workgroupBarrier();`}
${each(`    keys[expert] = ${groups === undefined ? 'keyOf(wanted(expert))' : `select(0u, keyOf(wanted(expert)), isKept(expert / ${experts / groups.count}u))`};`)}
  workgroupBarrier();
${each(`    let key = keys[expert];
    var better = 0u;
    for (var other = 0u; other < ${experts}u; other++) {
      if (keys[other] > key || (keys[other] == key && other < expert)) { better++; }
    }
    if (better < ${used}u) { chosen[better] = expert; }`)}
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < ${used}u; i++) { sum += scores[chosen[i]]; }
  let factor = ${shape.normalized ? `${shape.scale} / sum` : `f32(${shape.scale})`};
  for (var i = thread; i < ${used}u; i += ${threads}u) {
    let expert = chosen[i];
    let weight = scores[expert] * factor${hasScales ? ` * vectors[${hasBias ? experts : 0}u + expert]` : ''};
    choices[row * ${used}u + i] = vec2<u32>(expert, bitcast<u32>(weight));
  }
}
`;
}

/** Every thread looks at all scores in the same order. */
function softmaxText(experts: number, each: (text: string) => string): string {
  return /* wgsl */ `  var largest = scores[0];
  for (var i = 1u; i < ${experts}u; i++) { largest = max(largest, scores[i]); }
  workgroupBarrier();
${each('    scores[expert] = exp(scores[expert] - largest);')}
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < ${experts}u; i++) { total += scores[i]; }
  workgroupBarrier();
${each('    scores[expert] = scores[expert] / total;')}
  workgroupBarrier();`;
}

/** Declares `groupKey` of a group, and whether it is among the best. */
function groupChoice({ count, used, by }: NonNullable<RouterSpec['groups']>, experts: number): string {
  const size = experts / count;
  return /* wgsl */ `
var<workgroup> groupKeys: array<u32, ${count}>;
fn groupKey(group: u32) -> u32 {
  var first = wanted(group * ${size}u);
  var second = ${size > 1 ? '-3.0e38' : '0.0'};
  for (var i = 1u; i < ${size}u; i++) {
    let next = wanted(group * ${size}u + i);
    second = max(second, min(first, next));
    first = max(first, next);
  }
  return keyOf(first${by === 'best' ? '' : ' + second'});
}
fn isKept(group: u32) -> bool {
  var better = 0u;
  for (var other = 0u; other < ${count}u; other++) {
    if (groupKeys[other] > groupKeys[group] || (groupKeys[other] == groupKeys[group] && other < group)) { better++; }
  }
  return better < ${used}u;
}`;
}
