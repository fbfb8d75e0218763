// Attention through block tables. A workgroup takes up to eight queries of one sequence that share a K/V head (a
// query is a row and one of its heads) and some segments of their history, block by block: one token a lane for the
// scores, some values a lane for what is gathered. Segments are cut at fixed positions and joined in order, within
// the workgroup or afterwards (merge.ts), so that a query's bits depend on its own history alone.
//
// An item's words: first row of its sequence in the batch, first and end query (row * heads a K/V head + head), first
// and end segment, whether the result is whole (1) or a part to be merged (0).

import { type KvLayout, kvReader } from './kv-layout.ts';
import { joinParts, NOTHING } from './softmax.ts';
import { stepReader } from './step-layout.ts';

/** Queries of a workgroup. */
export const QUERY_LANES = 8;
/** Blocks of a segment. */
export const SEGMENT_BLOCKS = 2;

export interface AttendShape {
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly layout: KvLayout;
  readonly window?: number | undefined;
  readonly scale: number;
  readonly softcap?: number | undefined;
}

/** Words of V that a lane gathers. */
export const laneWords = ({ wordsPerToken }: KvLayout): number => Math.ceil(wordsPerToken / 32);
/** Floats of one query's part: gathered values lane by lane, largest score, sum of weights. */
export const partFloats = (layout: KvLayout): number => 32 * laneWords(layout) * layout.perWord + 2;

/** Bindings: step, rows of queries, K/V, output, parts. */
export function attendKernel(shape: AttendShape): string {
  const { headCount, kvHeadCount, layout, softcap, window } = shape;
  const { headSize, perWord, wordsPerToken, partWords } = layout;
  const group = headCount / kvHeadCount;
  const stride = (headCount + 2 * kvHeadCount) * headSize;
  const padded = perWord * wordsPerToken;
  const values = laneWords(layout) * perWord;
  const each = (text: (index: number) => string) =>
    Array.from({ length: values }, (_, i) => text(i)).join('\n');
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read> heads: array<f32>;
@group(0) @binding(2) var<storage, read> kv: array<u32>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;
@group(0) @binding(4) var<storage, read_write> parts: array<f32>;
${kvReader(layout)}
var<workgroup> queries: array<f32, ${QUERY_LANES * padded}>;
var<workgroup> scores: array<f32, ${QUERY_LANES * 32}>;
var<workgroup> weights: array<f32, ${QUERY_LANES * 32}>;

fn scoreOf(query: u32, part: u32, token: u32) -> f32 {
  var sum = 0.0;
  var word = 0u;
  for (; word + ${KEYS_AHEAD}u <= ${wordsPerToken}u; word += ${KEYS_AHEAD}u) {
${addKeys(layout, KEYS_AHEAD)}
  }
  for (; word < ${wordsPerToken}u; word++) {
${addKeys(layout, 1)}
  }
  let score = sum * scaleOf(part, token) * ${shape.scale};
  return ${softcap === undefined ? 'score' : `${softcap} * tanh(clamp(score / ${softcap}, -15.0, 15.0))`};
}

@compute @workgroup_size(${QUERY_LANES * 32})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) index: u32) {
  if (workgroup.x >= step[2]) { return; }
  let item = itemAt(workgroup.x);
  let firstRow = step[item];
  let firstQuery = step[item + 1u];
  let endQuery = step[item + 2u];
  let slot = index / 32u;
  let lane = index % 32u;
  let query = min(firstQuery + slot, endQuery - 1u);
  let row = firstRow + query / ${group}u;
  let head = workgroup.y * ${group}u + query % ${group}u;
  let last = rowPosition(row);
  let first = ${window === undefined ? '0u' : `u32(max(i32(last) - ${window - 1}, 0))`};
  let table = rowTable(firstRow);
  // What any of the queries sees.
  let tileLast = rowPosition(firstRow + (endQuery - 1u) / ${group}u);
  let tileStart = rowPosition(firstRow + firstQuery / ${group}u);
  let tileFirst = ${window === undefined ? '0u' : `u32(max(i32(tileStart) - ${window - 1}, 0))`};

  for (var i = lane; i < ${padded}u; i += 32u) {
    queries[slot * ${padded}u + i] = select(0.0, heads[row * ${stride}u + head * ${headSize}u + min(i, ${headSize - 1}u)], i < ${headSize}u);
  }
  workgroupBarrier();
  var M = ${NOTHING}; var L = 0.0;
${each((i) => `  var ACC${i} = 0.0;`)}
  for (var segment = step[item + 3u]; segment < step[item + 4u]; segment++) {
    var m = ${NOTHING}; var l = 0.0;
${each((i) => `    var acc${i} = 0.0;`)}
    let firstBlock = max(segment * ${SEGMENT_BLOCKS}u, tileFirst / 32u);
    let endBlock = min((segment + 1u) * ${SEGMENT_BLOCKS}u, tileLast / 32u + 1u);
    for (var block = firstBlock; block < endBlock; block++) {
      let part = step[table + block] * ${layout.blockWords}u + workgroup.y * ${2 * partWords}u;
      let position = block * 32u + lane;
      let seen = position >= first && position <= last;
      var score = ${NOTHING};
      if (seen) { score = scoreOf(slot, part, lane); }
      scores[slot * 32u + lane] = score;
      workgroupBarrier();
      var larger = m;
      for (var token = 0u; token < 32u; token++) { larger = max(larger, scores[slot * 32u + token]); }
      weights[slot * 32u + lane] = select(0.0, exp(score - larger), seen);
      workgroupBarrier();
      var sum = 0.0;
      for (var token = 0u; token < 32u; token++) { sum += weights[slot * 32u + token]; }
      let decay = exp(m - larger);
      l = fma(l, decay, sum);
      m = larger;
${each((i) => `      acc${i} *= decay;`)}
      // Rows past a query's own end may hold anything, even what is no number: each reads its own range.
      let valuePart = part + ${partWords}u;
      let begin = max(first, block * 32u) - block * 32u;
      let end = min(i32(last) - i32(block * 32u) + 1, 32);
      var token = begin;
      for (; i32(token) + ${VALUES_AHEAD} <= end; token += ${VALUES_AHEAD}u) {
${gather(layout, VALUES_AHEAD)}
      }
      for (; i32(token) < end; token++) {
${gather(layout, 1)}
      }
      workgroupBarrier();
    }
    ${joinParts(values)}
  }
  if (firstQuery + slot >= endQuery) { return; }
  if (step[item + 5u] == 1u) {
${writeOutput(layout, headCount)}
    return;
  }
  let to = ((workgroup.x * ${kvHeadCount}u + workgroup.y) * ${QUERY_LANES}u + slot) * ${partFloats(layout)}u;
${each((i) => `  parts[to + ${i}u * 32u + lane] = ACC${i};`)}
  if (lane == 0u) { parts[to + ${values * 32}u] = M; parts[to + ${values * 32 + 1}u] = L; }
}
`;
}

const components = ['x', 'y', 'z', 'w'];

/** Words of K, and tokens of V, that are read before the first of them is used. */
const KEYS_AHEAD = 16;
const VALUES_AHEAD = 8;

function addKeys({ perWord, wordsPerToken }: KvLayout, count: number): string {
  const each = (text: (index: number) => string) =>
    Array.from({ length: count }, (_, i) => text(i)).join('\n');
  const add = (index: number): string =>
    components
      .slice(0, perWord)
      .map((lane, i) => `sum = fma(queries[at + ${index * perWord + i}u], key${index}.${lane}, sum);`)
      .join(' ');
  return /* wgsl */ `${each((index) => `    let key${index} = unpackWord(kv[part + (word + ${index}u) * 32u + token]);`)}
    let at = query * ${perWord * wordsPerToken}u + word * ${perWord}u;
${each((index) => `    ${add(index)}`)}`;
}

/** The weighted values of `count` tokens from `token` on, one after the other. */
function gather(layout: KvLayout, count: number): string {
  const { perWord, wordsPerToken } = layout;
  const words = laneWords(layout);
  const lines: string[] = [];
  for (let i = 0; i < count; i++) {
    lines.push(`let weight${i} = weights[slot * 32u + token + ${i}u] * scaleOf(valuePart, token + ${i}u);`);
    for (let word = 0; word < words; word++) {
      // Lanes past the last word read it again, for nobody.
      const lane =
        32 * (word + 1) <= wordsPerToken
          ? `lane + ${32 * word}u`
          : `min(lane + ${32 * word}u, ${wordsPerToken - 1}u)`;
      lines.push(
        `let value${i}_${word} = unpackWord(kv[valuePart + (token + ${i}u) * ${wordsPerToken}u + ${lane}]);`,
      );
    }
  }
  for (let i = 0; i < count; i++) {
    for (let word = 0; word < words; word++) {
      for (const [part, lane] of components.slice(0, perWord).entries()) {
        const acc = `acc${word * perWord + part}`;
        lines.push(`${acc} = fma(weight${i}, value${i}_${word}.${lane}, ${acc});`);
      }
    }
  }
  return lines.map((line) => `        ${line}`).join('\n');
}

/** Writes `ACC… / L` to the query's head. */
export function writeOutput(layout: KvLayout, headCount: number): string {
  const { headSize, perWord } = layout;
  const lines = Array.from({ length: laneWords(layout) * perWord }, (_, i) => {
    const value = `(lane + ${32 * Math.floor(i / perWord)}u) * ${perWord}u + ${i % perWord}u`;
    return `    if (${value} < ${headSize}u) { output[into + ${value}] = ACC${i} * inverse; }`;
  });
  return `    let inverse = 1.0 / L;
    let into = (row * ${headCount}u + head) * ${headSize}u;
${lines.join('\n')}`;
}
