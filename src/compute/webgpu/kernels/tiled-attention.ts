// Attention of many queries of one sequence, as prompts have them: a workgroup takes 32 or 16 that share a KV head, and
// their whole history, so that each block of it is read once for all of them. Operations and their order are those of
// attention.ts, so that a query has the same bits whichever of the two has served it.
//
// What a thread has read from workgroup memory it uses four or eight times, for reading is what limits it. Segment after
// segment: keys go to workgroup memory, some dimensions at a time, and each thread makes the scores of four queries and
// four tokens; then the values of one block after the other, of which each thread gathers some for four queries. Items
// are those of attention.ts.

import { type AttendShape, SEGMENT_BLOCKS } from './attention.ts';
import { type KvLayout, kvReader } from './kv-layout.ts';
import { firstSeen, joinParts, joinSink, lastSeen, NOTHING, scoreMaker, sinkBuffer } from './softmax.ts';
import { placeReader, planReader } from './step-layout.ts';
import { repeat } from './wgsl.ts';

interface AttendManyKernel extends AttendShape {
  readonly queries: number;
}

const SEGMENT_TOKENS = 32 * SEGMENT_BLOCKS;
/** Fours of tokens of a segment. */
const TOKEN_FOURS = SEGMENT_TOKENS / 4;
/** Dimensions of keys that are held at a time, in fours. */
const KEY_VECTORS = 16;
/** The widest head whose sums fit a thread's registers. */
const WIDEST_HEAD = 128;

/** From one row of workgroup memory to the next: an odd number, so that rows fall into different banks. */
const odd = (count: number): number => count + 1 - (count % 2);
const KEY_STRIDE = odd(KEY_VECTORS);
const WEIGHT_STRIDE = odd(TOKEN_FOURS);

/** Fours of a token's dimensions as keys have them: padded to whole fours of words. */
const paddedVectors = ({ perWord, keyFours }: KvLayout): number => perWord * keyFours;

function heldVectors(layout: KvLayout): number {
  return Math.max(SEGMENT_TOKENS * KEY_STRIDE, 32 * odd(layout.headSize / 4));
}

/** The most queries that an adapter's workgroups have room for; none where even few are too many. */
export function manyQueries(layout: KvLayout, limits: { readonly workgroupBytes: number }): number {
  if (layout.headSize % 4 !== 0 || layout.headSize > WIDEST_HEAD) return 0;
  const bytes = (queries: number) =>
    16 * (queries * (odd(paddedVectors(layout)) + WEIGHT_STRIDE) + heldVectors(layout)) +
    4 * queries * (WEIGHT_STRIDE + SEGMENT_BLOCKS);
  return [32, 16].find((queries) => bytes(queries) <= limits.workgroupBytes) ?? 0;
}

const lanes = ['x', 'y', 'z', 'w'] as const;

/** Bindings: step, rows of queries, KV as words, output, KV as fours of words, sinks (where there are any). */
export function attendManyKernel(shape: AttendManyKernel): string {
  const { headCount, kvHeadCount, layout, queries } = shape;
  const { headSize, headWords, perWord } = layout;
  const group = headCount / kvHeadCount;
  const quads = queries / 4;
  const threads = quads * TOKEN_FOURS;
  const vectors = paddedVectors(layout);
  const stride = odd(vectors);
  const valueVectors = headSize / 4;
  // Fours of values that a thread gathers for its queries, and how far apart they are.
  const places = Math.ceil((quads * valueVectors) / threads);
  const columns = Math.ceil(valueVectors / places);
  const wordsPerVector = 4 / perWord;
  const valueLoads = Math.ceil((8 * valueVectors) / threads);
  const parts = Math.ceil(vectors / KEY_VECTORS);
  const partVectors = (part: number) => Math.min(KEY_VECTORS, vectors - part * KEY_VECTORS);
  // vec4s of K or V that a thread reads ahead.
  const loads = Math.max(
    valueLoads * wordsPerVector,
    Math.ceil(((partVectors(0) / perWord) * SEGMENT_TOKENS) / threads),
  );
  const each = (text: (place: number, query: number) => string) =>
    repeat(places, (place) => repeat(4, (query) => text(place, query)));
  const fours = (text: (query: number) => string) => repeat(4, text);
  return /* wgsl */ `
${planReader(0, shape.plan)}${shape.imagesBothWays ? placeReader : ''}
@group(0) @binding(1) var<storage, read> heads: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> kv: array<u32>;
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> fours: array<vec4<u32>>;
${sinkBuffer(shape, 5)}
${kvReader(layout)}
${scoreMaker(shape)}
var<workgroup> asked: array<vec4<f32>, ${queries * stride}>;
// Keys of a segment, some dimensions of them; then values of a block.
var<workgroup> held: array<vec4<f32>, ${heldVectors(layout)}>;
var<workgroup> weights: array<vec4<f32>, ${queries * WEIGHT_STRIDE}>;
// Of each query and four tokens, then of each query and block.
var<workgroup> maxima: array<f32, ${queries * WEIGHT_STRIDE}>;
var<workgroup> largest: array<f32, ${queries * SEGMENT_BLOCKS}>;
fn blockStart(table: u32, block: u32, head: u32) -> u32 {
  return step[table + block] * ${layout.blockWords}u + head * ${headWords}u;
}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) index: u32) {
  if (workgroup.x >= manyCount()) { return; }
  let item = manyAt(workgroup.x);
  let firstRow = step[item];
  let firstQuery = step[item + 1u];
  let endQuery = step[item + 2u];
  let table = step[item + 6u];
  let position = step[item + 7u];
  let textLast = step[item + 8u];
  let tileLast = ${lastSeen(shape, `(position + (endQuery - 1u) / ${group}u)`)};
  let tileFirst = ${firstSeen(shape, `(position + firstQuery / ${group}u)`)};
  for (var at = index; at < ${queries * vectors}u; at += ${threads}u) {
    let query = min(firstQuery + at / ${vectors}u, endQuery - 1u);
    let row = firstRow + query / ${group}u;
    let head = workgroup.y * ${group}u + query % ${group}u;
    let vector = at % ${vectors}u;
    asked[at / ${vectors}u * ${stride}u + vector] = select(vec4<f32>(0.0),
      heads[(row * ${headCount}u + head) * ${valueVectors}u + min(vector, ${valueVectors - 1}u)], vector < ${valueVectors}u);
  }
  // For scores: four queries and four tokens.
  let askedQuad = index / ${TOKEN_FOURS}u * 4u;
  let four = index % ${TOKEN_FOURS}u;
${fours((q) => `  let own${q} = position + min(firstQuery + askedQuad + ${q}u, endQuery - 1u) / ${group}u; let first${q} = ${firstSeen(shape, `own${q}`)}; let last${q} = ${lastSeen(shape, `own${q}`)};`)}
  // For what is gathered: four queries and some values.
  let quad = (index / ${columns}u % ${quads}u) * 4u;
${fours((q) => `  var M${q} = ${NOTHING}; var L${q} = 0.0;`)}
${each((place, q) => `  var ACC${place}_${q} = vec4<f32>(0.0);`)}
  let lastBlock = tileLast / 32u;
${repeat(loads, (i) => `  var next${i}: vec4<u32>;`)}
${loadKeys(`tileFirst / ${SEGMENT_TOKENS}u * ${SEGMENT_BLOCKS}u`, 0)}
  for (var segment = tileFirst / ${SEGMENT_TOKENS}u; segment <= tileLast / ${SEGMENT_TOKENS}u; segment++) {
    let firstBlock = segment * ${SEGMENT_BLOCKS}u;
    // A segment's last blocks may be missing: the last that is there stands for them, seen by nobody.
    let ownBlock = min(firstBlock + four / 8u, lastBlock);
    let ownStart = blockStart(table, ownBlock, workgroup.y);
${repeat(4, (t) => fours((q) => `    var score${t}_${q} = 0.0;`))}
${repeat(parts, addScores)}
    let token = segment * ${SEGMENT_TOKENS}u + four * 4u;
${repeat(4, (t) =>
  fours(
    (q) => `    let seen${t}_${q} = token + ${t}u >= first${q} && token + ${t}u <= last${q};
    score${t}_${q} = select(${NOTHING}, scoreOf(score${t}_${q}, ownStart, (four * 4u + ${t}u) % 32u), seen${t}_${q});`,
  ),
)}
${fours((q) => `    maxima[(askedQuad + ${q}u) * ${WEIGHT_STRIDE}u + four] = max(max(score0_${q}, score1_${q}), max(score2_${q}, score3_${q}));`)}
    workgroupBarrier();
${fours(
  (q) => `    {
      var m = ${NOTHING};
      for (var i = four & ~7u; i < (four & ~7u) + 8u; i++) { m = max(m, maxima[(askedQuad + ${q}u) * ${WEIGHT_STRIDE}u + i]); }
      if (four % 8u == 0u) { largest[(askedQuad + ${q}u) * ${SEGMENT_BLOCKS}u + four / 8u] = m; }
      weights[(askedQuad + ${q}u) * ${WEIGHT_STRIDE}u + four] = vec4<f32>(${[0, 1, 2, 3].map((t) => `select(0.0, exp(score${t}_${q} - m), seen${t}_${q})`).join(', ')});
    }`,
)}
${fours((q) => `    var segmentM${q} = ${NOTHING}; var segmentL${q} = 0.0;`)}
${each((place, q) => `    var segmentACC${place}_${q} = vec4<f32>(0.0);`)}
${repeat(SEGMENT_BLOCKS, gatherBlock)}
${fours((q) => join(q, '', `segmentM${q}`, `segmentL${q}`, 'segmentACC'))}
  }
${fours(writeOutput)}
}
`;

  /** Reads some dimensions of a segment's keys. */
  function loadKeys(firstBlock: string, part: number): string {
    const count = partVectors(part) / perWord;
    return repeat(Math.ceil((count * SEGMENT_TOKENS) / threads), (i) => {
      const at = `min(index + ${i * threads}u, ${count * SEGMENT_TOKENS - 1}u)`;
      return /* wgsl */ `    {
      let at = ${at};
      let token = at % ${SEGMENT_TOKENS}u;
      let start = blockStart(table, min(${firstBlock} + token / 32u, lastBlock), workgroup.y);
      next${i} = fours[start / 4u + (${(part * KEY_VECTORS) / perWord}u + at / ${SEGMENT_TOKENS}u) * 32u + token % 32u];
    }`;
    });
  }

  /** The four tokens of a thread lie in different banks. */
  function storeKeys(part: number): string {
    const count = partVectors(part) / perWord;
    return repeat(Math.ceil((count * SEGMENT_TOKENS) / threads), (i) => {
      const words = lanes.map((word) => `unpackWord(next${i}.${word})`);
      const values =
        perWord === 4
          ? words
          : [`vec4<f32>(${words[0]}, ${words[1]})`, `vec4<f32>(${words[2]}, ${words[3]})`];
      return /* wgsl */ `    {
      let at = min(index + ${i * threads}u, ${count * SEGMENT_TOKENS - 1}u);
      let token = at % ${SEGMENT_TOKENS}u;
      let to = ((token % 4u) * ${TOKEN_FOURS}u + token / 4u) * ${KEY_STRIDE}u + at / ${SEGMENT_TOKENS}u * ${perWord}u;
${values.map((value, place) => `      held[to + ${place}u] = ${value};`).join('\n')}
    }`;
    });
  }

  /** Reads a block's values. */
  function loadValues(block: string): string {
    return repeat(
      valueLoads,
      (i) => /* wgsl */ `    {
      let at = min(index + ${i * threads}u, ${8 * valueVectors - 1}u);
      let start = blockStart(table, min(${block}, lastBlock), workgroup.y);
      let origin = (start + ${layout.keyWords}u) / 4u + at / ${valueVectors}u * ${layout.wordsPerToken}u + at % ${valueVectors}u * ${wordsPerVector}u;
${repeat(wordsPerVector, (word) => `      next${i * wordsPerVector + word} = fours[origin + ${word}u];`)}
    }`,
    );
  }

  /** What a token that nobody sees holds may be anything, even no number: it counts as nothing. */
  function storeValues(): string {
    const value = (i: number, token: number) => {
      const words = Array.from(
        { length: wordsPerVector },
        (_, word) => `unpackWord(next${i * wordsPerVector + word}.${lanes[token]})`,
      );
      return perWord === 4 ? words[0] : `vec4<f32>(${words.join(', ')})`;
    };
    return repeat(
      valueLoads,
      (i) => /* wgsl */ `    {
      let at = min(index + ${i * threads}u, ${8 * valueVectors - 1}u);
      let four = at / ${valueVectors}u * 4u;
${repeat(4, (token) => `      held[(four + ${token}u) * ${odd(valueVectors)}u + at % ${valueVectors}u] = select(vec4<f32>(0.0), ${value(i, token)}, four + ${token}u < tokens);`)}
    }`,
    );
  }

  /** Adds the products of some dimensions to the scores; meanwhile what comes next is read. */
  function addScores(part: number): string {
    const add = (t: number, q: number) =>
      lanes
        .map((lane) => `score${t}_${q} = fma(query${q}.${lane}, key${t}.${lane}, score${t}_${q});`)
        .join(' ');
    return /* wgsl */ `    workgroupBarrier();
${storeKeys(part)}
    workgroupBarrier();
${part + 1 < parts ? loadKeys('firstBlock', part + 1) : loadValues('firstBlock')}
    for (var vector = 0u; vector < ${partVectors(part)}u; vector++) {
${fours((q) => `      let query${q} = asked[(askedQuad + ${q}u) * ${stride}u + ${part * KEY_VECTORS}u + vector];`)}
${repeat(4, (t) => `      let key${t} = held[(${t * TOKEN_FOURS}u + four) * ${KEY_STRIDE}u + vector];`)}
${repeat(4, (t) => fours((q) => `      ${add(t, q)}`))}
    }`;
  }

  function gatherBlock(part: number): string {
    const isLast = part + 1 === SEGMENT_BLOCKS;
    return /* wgsl */ `    if ((firstBlock + ${part}u) * 32u <= tileLast) {
      let start = blockStart(table, firstBlock + ${part}u, workgroup.y);
      let tokens = tileLast + 1u - (firstBlock + ${part}u) * 32u;
      ${part > 0 ? 'workgroupBarrier();' : ''}
${storeValues()}
      workgroupBarrier();
${isLast ? '' : loadValues(`firstBlock + ${part + 1}u`)}
${isLast ? loadKeys(`firstBlock + ${SEGMENT_BLOCKS}u`, 0) : ''}
${fours((q) => `      var l${q} = 0.0;`)}
${each((place, q) => `      var acc${place}_${q} = vec4<f32>(0.0);`)}
      for (var i = 0u; i < 8u; i++) {
${fours((q) => `        let weight${q} = weights[(quad + ${q}u) * ${WEIGHT_STRIDE}u + ${part * 8}u + i];`)}
${repeat(4, gather)}
      }
${fours((q) => join(q, 'segment', `largest[(quad + ${q}u) * ${SEGMENT_BLOCKS}u + ${part}u]`, `l${q}`, 'acc'))}
    }`;
  }

  /** Adds a token's values, weighted, to those of the thread's queries. */
  function gather(token: number): string {
    // A scale that nobody sees may be no number, too.
    const scaled = (q: number) => {
      const weight = `weight${q}.${lanes[token]}`;
      if (layout.type === 'f16') return weight;
      return `select(0.0, ${weight} * valueScale(start, 4u * i + ${token}u), ${weight} != 0.0)`;
    };
    return /* wgsl */ `        {
${fours((q) => `          l${q} += weight${q}.${lanes[token]};`)}
${repeat(places, (place) => `          let value${place} = held[(4u * i + ${token}u) * ${odd(valueVectors)}u + ${valueAt(place)}];`)}
${fours((q) => `          let scaled${q} = vec4<f32>(${scaled(q)});`)}
${each((place, q) => `          acc${place}_${q} = fma(scaled${q}, value${place}, acc${place}_${q});`)}
        }`;
  }

  function valuesOf(query: number, name: string): string[] {
    return Array.from({ length: places }, (_, place) => `${name}${place}_${query}`);
  }

  function wholeOf(query: number, prefix: string) {
    return { m: `${prefix}M${query}`, l: `${prefix}L${query}`, values: valuesOf(query, `${prefix}ACC`) };
  }

  /** Joins a part of a query's values to the whole. */
  function join(query: number, whole: string, m: string, l: string, acc: string): string {
    return joinParts(wholeOf(query, whole), { m, l, values: valuesOf(query, acc) }, 'vec4<f32>');
  }

  /** Which four values: past the last one the last again. */
  function valueAt(place: number): string {
    const at = `index % ${columns}u`;
    return place === 0 ? at : `min(${at} + ${place * columns}u, ${valueVectors - 1}u)`;
  }

  function writeOutput(q: number): string {
    return /* wgsl */ `  if (index < ${quads * columns}u && firstQuery + quad + ${q}u < endQuery) {
    let query = firstQuery + quad + ${q}u;
    let row = firstRow + query / ${group}u;
    let head = workgroup.y * ${group}u + query % ${group}u;
    ${joinSink(shape, wholeOf(q, ''), 'vec4<f32>')}
    let inverse = 1.0 / L${q};
    let into = (row * ${headCount}u + head) * ${valueVectors}u;
${repeat(places, (place) => `    output[into + ${valueAt(place)}] = ACC${place}_${q} * inverse;`)}
  }`;
  }
}
