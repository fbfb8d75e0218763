// Attention through block tables. A workgroup takes a few queries of one sequence that share a KV head (a query is a row
// and one of its heads) and some segments of their history. Eight teams of 32 lanes work side by side: each has one
// query and one block of a segment, with a token a lane for the scores and some values a lane for what is gathered.
// Blocks are joined in order within a segment, segments in order after that, in the workgroup or afterwards (`mergeKernel`),
// so that a query's bits depend on its own history alone.
//
// An item's words: first row of its sequence in the batch, first and end query (row * heads a KV head + head), first
// and end segment, whether the result is whole (1) or a part to be merged (0), the block table, the first row's position
// and the last row's.

import { type KvLayout, kvReader } from './kv-layout.ts';
import {
  firstSeen,
  joinParts,
  joinSink,
  lastSeen,
  NOTHING,
  partOf,
  type ScoreShape,
  scoreMaker,
  sinkBuffer,
  wholeOf,
} from './softmax.ts';
import { placeReader, planReader } from './step-layout.ts';
import { repeat } from './wgsl.ts';

const TEAMS = 8;
export const SEGMENT_BLOCKS = 2;

export interface AttendShape extends ScoreShape {
  /** Which of the step's plans it follows. */
  readonly plan: number;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly layout: KvLayout;
}

/** Queries of a workgroup: all that share a KV head and a row, if they leave teams for both blocks of a segment. */
export function queryLanes(headCount: number, kvHeadCount: number): number {
  return headCount / kvHeadCount <= TEAMS / SEGMENT_BLOCKS ? TEAMS / SEGMENT_BLOCKS : TEAMS;
}

/** Words of V that a lane gathers. */
const laneWords = ({ wordsPerToken }: KvLayout): number => Math.ceil(wordsPerToken / 32);
/** Floats of one query's part: gathered values lane by lane, largest score, sum of weights. */
export const partFloats = (layout: KvLayout): number => 32 * laneWords(layout) * layout.perWord + 2;

export function attendBytes(headCount: number, kvHeadCount: number, layout: KvLayout): number {
  const lanes = queryLanes(headCount, kvHeadCount);
  const handed = lanes < TEAMS ? lanes * partFloats(layout) : 0;
  return 4 * (lanes * 4 * layout.keyFours * layout.perWord + 2 * TEAMS * 32 + handed);
}

/** Bindings: step, rows of queries, KV as words, output, parts, KV as fours of words, sinks (where there are any). */
export function attendKernel(shape: AttendShape): string {
  const { headCount, kvHeadCount, layout } = shape;
  const { headSize, perWord, keyFours, headWords } = layout;
  const group = headCount / kvHeadCount;
  const lanes = queryLanes(headCount, kvHeadCount);
  const sideBySide = TEAMS / lanes;
  const padded = 4 * keyFours * perWord;
  const values = laneWords(layout) * perWord;
  const each = (line: (index: number) => string) => repeat(values, line);
  return /* wgsl */ `
${planReader(0, shape.plan)}${shape.imagesBothWays ? placeReader : ''}
@group(0) @binding(1) var<storage, read> heads: array<f32>;
@group(0) @binding(2) var<storage, read> kv: array<u32>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;
@group(0) @binding(4) var<storage, read_write> parts: array<f32>;
@group(0) @binding(5) var<storage, read> fours: array<vec4<u32>>;
${sinkBuffer(shape, 6)}
${kvReader(layout)}
${scoreMaker(shape)}
var<workgroup> queries: array<vec4<f32>, ${(lanes * padded) / 4}>;
var<workgroup> scores: array<f32, ${TEAMS * 32}>;
var<workgroup> weights: array<f32, ${TEAMS * 32}>;
${sideBySide > 1 ? `var<workgroup> handed: array<f32, ${lanes * partFloats(layout)}>;` : ''}

fn scoreOfQuery(query: u32, start: u32, token: u32) -> f32 {
  var sum = 0.0;
  var four = 0u;
  for (; four + ${KEYS_AHEAD}u <= ${keyFours}u; four += ${KEYS_AHEAD}u) {
${addKeys(layout, KEYS_AHEAD)}
  }
  for (; four < ${keyFours}u; four++) {
${addKeys(layout, 1)}
  }
  return scoreOf(sum, start, token);
}

@compute @workgroup_size(${TEAMS * 32})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) index: u32) {
  if (workgroup.x >= itemCount()) { return; }
  let item = itemAt(workgroup.x);
  let firstRow = step[item];
  let firstQuery = step[item + 1u];
  let endQuery = step[item + 2u];
  let table = step[item + 6u];
  let position = step[item + 7u];
  let textLast = step[item + 8u];
  let team = index / 32u;
  let slot = team % ${lanes}u;
  let lane = index % 32u;
  let query = min(firstQuery + slot, endQuery - 1u);
  let row = firstRow + query / ${group}u;
  let head = workgroup.y * ${group}u + query % ${group}u;
  let own = position + query / ${group}u;
  let first = ${firstSeen(shape, 'own')};
  let last = ${lastSeen(shape, 'own')};
  // What any of the queries sees.
  let tileLast = ${lastSeen(shape, `(position + (endQuery - 1u) / ${group}u)`)};
  let tileFirst = ${firstSeen(shape, `(position + firstQuery / ${group}u)`)};

  if (team < ${lanes}u) {
    for (var four = lane; four < ${padded / 4}u; four += 32u) {
      var value = vec4<f32>(0.0);
      for (var i = 0u; i < 4u; i++) {
        let at = four * 4u + i;
        if (at < ${headSize}u) { value[i] = heads[(row * ${headCount}u + head) * ${headSize}u + at]; }
      }
      queries[slot * ${padded / 4}u + four] = value;
    }
  }
  workgroupBarrier();
  var M = ${NOTHING}; var L = 0.0;
${each((i) => `  var ACC${i} = 0.0;`)}
  let endSegment = min(step[item + 4u], tileLast / ${32 * SEGMENT_BLOCKS}u + 1u);
  for (var segment = max(step[item + 3u], tileFirst / ${32 * SEGMENT_BLOCKS}u); segment < endSegment; segment++) {
    var segmentM = ${NOTHING}; var segmentL = 0.0;
${each((i) => `    var segmentACC${i} = 0.0;`)}
    for (var turn = 0u; turn < ${SEGMENT_BLOCKS}u; turn += ${sideBySide}u) {
      let block = segment * ${SEGMENT_BLOCKS}u + turn + team / ${lanes}u;
      let start = step[table + min(block, tileLast / 32u)] * ${layout.blockWords}u + workgroup.y * ${headWords}u;
      let seen = block * 32u + lane >= first && block * 32u + lane <= last;
      var score = ${NOTHING};
      if (seen) { score = scoreOfQuery(slot, start, lane); }
      scores[team * 32u + lane] = score;
      workgroupBarrier();
      var m = ${NOTHING};
      for (var token = 0u; token < 32u; token++) { m = max(m, scores[team * 32u + token]); }
      weights[team * 32u + lane] = select(0.0, exp(score - m), seen);
      workgroupBarrier();
      var l = 0.0;
      for (var token = 0u; token < 32u; token++) { l += weights[team * 32u + token]; }
${each((i) => `      var acc${i} = 0.0;`)}
${gather(layout)}
      ${joinParts(wholeOf(values, 'segment'), partOf(values))}
${sideBySide > 1 ? takeOver(layout, lanes) : ''}
      workgroupBarrier();
    }
    let m = segmentM; let l = segmentL;
${each((i) => `    let acc${i} = segmentACC${i};`)}
    ${joinParts(wholeOf(values), partOf(values))}
  }
  if (team >= ${lanes}u || firstQuery + slot >= endQuery) { return; }
  if (step[item + 5u] == 1u) {
${writeOutput(shape)}
    return;
  }
  let to = ((workgroup.x * ${kvHeadCount}u + workgroup.y) * ${lanes}u + slot) * ${partFloats(layout)}u;
${each((i) => `  parts[to + ${i}u * 32u + lane] = ACC${i};`)}
  if (lane == 0u) { parts[to + ${values * 32}u] = M; parts[to + ${values * 32 + 1}u] = L; }
}
`;
}

/** The team of a segment's first block joins the part of the second's. */
function takeOver(layout: KvLayout, lanes: number): string {
  const values = laneWords(layout) * layout.perWord;
  const floats = partFloats(layout);
  const each = (line: (index: number) => string) => repeat(values, line);
  return /* wgsl */ `      let place = slot * ${floats}u;
      if (team >= ${lanes}u) {
${each((i) => `        handed[place + ${32 * i}u + lane] = acc${i};`)}
        if (lane == 0u) { handed[place + ${32 * values}u] = m; handed[place + ${32 * values + 1}u] = l; }
      }
      workgroupBarrier();
      if (team < ${lanes}u) {
        m = handed[place + ${32 * values}u];
        l = handed[place + ${32 * values + 1}u];
${each((i) => `        acc${i} = handed[place + ${32 * i}u + lane];`)}
        ${joinParts(wholeOf(values, 'segment'), partOf(values))}
      }`;
}

const components = ['x', 'y', 'z', 'w'];

/** Fours of words of K that are read before the first of them is used. */
const KEYS_AHEAD = 8;

/** Four words of K at a time, with the queries' values that go with them. */
function addKeys({ perWord, keyFours }: KvLayout, count: number): string {
  const addFour = (index: number): string => {
    const words = components.map((word, w) => {
      const adds = components.slice(0, perWord).map((lane, i) => {
        const value = w * perWord + i;
        return `sum = fma(query${Math.floor(value / 4)}.${components[value % 4]}, key.${lane}, sum);`;
      });
      return `{ let key = unpackWord(four${index}.${word}); ${adds.join(' ')} }`;
    });
    const queries = Array.from(
      { length: perWord },
      (_, i) => `let query${i} = queries[at + ${index * perWord + i}u];`,
    );
    return `    { ${queries.join(' ')} ${words.join(' ')} }`;
  };
  return /* wgsl */ `${repeat(count, (index) => `    let four${index} = fours[start / 4u + (four + ${index}u) * 32u + token];`)}
    let at = (query * ${keyFours}u + four) * ${perWord}u;
${repeat(count, addFour)}`;
}

/**
 * Adds up the weighted values of the block, token after token, four of them at a time. What a token that is not seen
 * holds may be anything, even no number: it counts as nothing.
 */
function gather(layout: KvLayout): string {
  const { perWord, wordsPerToken, keyWords } = layout;
  const words = Array.from({ length: laneWords(layout) }, (_, word) => word);
  const fours = Array.from({ length: 32 / 4 }, (_, four) => four);
  // Lanes past the last word read it again, for nobody.
  const place = (word: number) =>
    32 * (word + 1) <= wordsPerToken
      ? `lane + ${32 * word}u`
      : `min(lane + ${32 * word}u, ${wordsPerToken - 1}u)`;
  const read = fours.flatMap((four) =>
    words.map(
      (word) => `let value${four}_${word} = fours[valueStart + ${four * wordsPerToken}u + ${place(word)}];`,
    ),
  );
  const add = fours.flatMap((four) =>
    components.flatMap((token, t) => [
      `if (weights[team * 32u + ${4 * four + t}u] != 0.0) {`,
      `  let weight = weights[team * 32u + ${4 * four + t}u] * valueScale(start, ${4 * four + t}u);`,
      ...words.map((word) => {
        const adds = components.slice(0, perWord).map((lane, i) => {
          const acc = `acc${word * perWord + i}`;
          return `${acc} = fma(weight, value.${lane}, ${acc});`;
        });
        return `  { let value = unpackWord(value${four}_${word}.${token}); ${adds.join(' ')} }`;
      }),
      '}',
    ]),
  );
  const lines = [`let valueStart = (start + ${keyWords}u) / 4u;`, ...read, ...add];
  return lines.map((line) => `      ${line}`).join('\n');
}

/** Writes `ACC… / L` to the query's head. */
function writeOutput(shape: AttendShape): string {
  const { headCount, layout } = shape;
  const { headSize, perWord } = layout;
  const lines = Array.from({ length: laneWords(layout) * perWord }, (_, i) => {
    const value = `(lane + ${32 * Math.floor(i / perWord)}u) * ${perWord}u + ${i % perWord}u`;
    return `    if (${value} < ${headSize}u) { output[into + ${value}] = ACC${i} * inverse; }`;
  });
  return `    ${joinSink(shape, wholeOf(laneWords(layout) * perWord))}
    let inverse = 1.0 / L;
    let into = (row * ${headCount}u + head) * ${headSize}u;
${lines.join('\n')}`;
}

/**
 * Joins parts of the same queries that several workgroups have gathered, segment after segment. A merge's words: first row
 * of the sequence, first and end query, as in its items; first item and number of items.
 * Bindings: step, parts, output, sinks (where there are any).
 */
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
