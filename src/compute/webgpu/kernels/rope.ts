// Queries and keys are normalized where the model does so, and rotated; keys and values are stored in their block. One
// workgroup takes one head of one row; the heads of a row are its queries, its keys, its values.

import type { AttentionSpec, HeadNormSpec, RopeSpec } from '../../../model/spec.ts';
import { spoiled } from './activation.ts';
import type { KvLayout } from './kv-layout.ts';
import { type NormShape, normed, normStats } from './norm.ts';
import { placeReader, stepReader } from './step-layout.ts';
import { rowSum } from './wgsl.ts';

export interface HeadNorm {
  readonly norm: NormShape;
  readonly over: HeadNormSpec['over'];
  /** Where its weights start in the buffer of all norms, and its biases. */
  readonly weightAt: number;
  readonly biasAt: number;
}

export interface RotateShape {
  readonly headCount: number;
  readonly headSize: number;
  /** Values of a row that is read; its queries come first. */
  readonly stride: number;
  readonly stored: StoredHeads | undefined;
  /** Pairs (i, i + half) that are rotated; none without positional encoding (NoPE). */
  readonly half: number;
  /** Pairs turn by three positions: where their axes start in the rope table, in pairs of floats; absent: by one. */
  readonly axesAt?: number | undefined;
  readonly queryNorm: HeadNorm | undefined;
  readonly normsAfterRope: boolean;
  readonly growth: AttentionSpec['growth'];
  readonly epsilon: number;
}

interface StoredHeads {
  readonly headCount: number;
  /** Where keys and values start in a row: the same where they are the same. */
  readonly keysAt: number;
  readonly valuesAt: number;
  readonly keyNorm: HeadNorm | undefined;
  readonly valueNorm: HeadNorm | undefined;
  readonly layout: KvLayout;
}

/** Positions that the fine table of a rotary embedding covers; the coarse one counts in steps of it. */
const FINE_POSITIONS = 256;

const ropeEntries = (contextLength: number): number =>
  FINE_POSITIONS + Math.ceil(contextLength / FINE_POSITIONS);

/** Where the axes of pairs start in a table that has them, in pairs of floats. */
export const axesPlace = ({ inverseFrequencies }: RopeSpec, contextLength: number): number =>
  ropeEntries(contextLength) * inverseFrequencies.length;

/**
 * Cosine and sine of each pair: for the first positions one by one, then for multiples of their number. After them each
 * pair's axis, where there are any.
 */
export function ropeTable(
  { inverseFrequencies, magnitude, axes = [] }: RopeSpec,
  contextLength: number,
): Float32Array<ArrayBuffer> {
  const entries = ropeEntries(contextLength);
  const table = new Float32Array((entries * inverseFrequencies.length + axes.length) * 2);
  let at = 0;
  for (let entry = 0; entry < entries; entry++) {
    const isFine = entry < FINE_POSITIONS;
    const position = isFine ? entry : (entry - FINE_POSITIONS) * FINE_POSITIONS;
    for (const frequency of inverseFrequencies) {
      table[at++] = (isFine ? magnitude : 1) * Math.cos(position * frequency);
      table[at++] = (isFine ? magnitude : 1) * Math.sin(position * frequency);
    }
  }
  for (const [pair, axis] of axes.entries()) table[at + 2 * pair] = axis;
  return table;
}

const THREADS = 64;

export const rotatedHeads = ({ headCount, stored }: RotateShape): number =>
  headCount + 2 * (stored?.headCount ?? 0);

/** Bindings: step, projections, queries, KV (where stored), rope table (where rotated), norms (where weighted). */
export function rotateStoreKernel(shape: RotateShape): string {
  const { headCount, headSize, stride, stored, half } = shape;
  const norms = [shape.queryNorm, stored?.keyNorm, stored?.valueNorm].filter((norm) => norm !== undefined);
  const isWeighted = norms.some(({ norm }) => norm.weight || norm.bias);
  return /* wgsl */ `
${stepReader(0)}${shape.axesAt === undefined ? '' : placeReader}
@group(0) @binding(1) var<storage, read> made: array<f32>;
@group(0) @binding(2) var<storage, read_write> queries: array<f32>;
${stored === undefined ? '' : '@group(0) @binding(3) var<storage, read_write> kv: array<u32>;'}
${half === 0 ? '' : '@group(0) @binding(4) var<storage, read> turns: array<vec2<f32>>;'}
${isWeighted ? '@group(0) @binding(5) var<storage, read> norm: array<f32>;' : ''}
var<workgroup> head: array<f32, ${4 * Math.ceil(headSize / 4)}>;
${norms.length > 0 ? rowSum(THREADS) : ''}
${half === 0 ? '' : turning(shape)}
${stored === undefined ? '' : storeHeads(stored.layout)}
${normalizing(shape, 'Query', shape.queryNorm, headCount, shape.normsAfterRope)}
${stored === undefined ? '' : normalizing(shape, 'Key', stored.keyNorm, stored.headCount, shape.normsAfterRope)}
${stored === undefined ? '' : normalizing(shape, 'Value', stored.valueNorm, stored.headCount, false)}
fn load(at: u32, thread: u32) {
  for (var i = thread; i < ${headSize}u; i += ${THREADS}u) { head[i] = made[at + i]; }
  workgroupBarrier();
}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = group.y;
  if (row >= rowCount()) { return; }
  let position = rowPosition(row);
${shape.axesAt === undefined ? '' : '  let place = placeOf(row);\n'}  if (group.x < ${headCount}u) {
    let base = row * ${stride}u;
    load(base + group.x * ${headSize}u, thread);
${place(shape, 'Query', shape.queryNorm, 'group.x')}
    let into = (row * ${headCount}u + group.x) * ${headSize}u;
    for (var i = thread; i < ${headSize}u; i += ${THREADS}u) { queries[into + i] = head[i]${growthText(shape)}; }
    return;
  }
${stored === undefined ? '' : storeText(shape, stored)}
}
`;
}

function growthText({ growth }: RotateShape): string {
  if (growth === undefined) return '';
  const { weight, length, shift } = growth;
  return ` * (1.0 + ${weight} * log(1.0 + f32((position + ${shift}u) / ${length}u)))`;
}

function storeText(shape: RotateShape, stored: StoredHeads): string {
  const { headCount, keysAt, valuesAt, layout } = stored;
  const { headSize, stride } = shape;
  return /* wgsl */ `
  let slot = rowSlot(row);
  let token = slot % 32u;
  let block = (slot / 32u) * ${layout.blockWords}u;
  if (group.x < ${shape.headCount + headCount}u) {
    let index = group.x - ${shape.headCount}u;
    let base = row * ${stride}u + ${keysAt}u;
    load(base + index * ${headSize}u, thread);
${place(shape, 'Key', stored.keyNorm, 'index')}
    storeKey(block + index * ${layout.headWords}u, token, thread);
  } else {
    let index = group.x - ${shape.headCount + headCount}u;
    let base = row * ${stride}u + ${valuesAt}u;
    load(base + index * ${headSize}u, thread);
    ${stored.valueNorm === undefined ? '' : 'normalizeValue(base, position, index, thread);'}
    storeValue(block + index * ${layout.headWords}u, token, thread);
  }`;
}

/** A head of queries or keys, normalized and rotated. */
function place(
  { half, axesAt, normsAfterRope }: RotateShape,
  name: 'Query' | 'Key',
  norm: HeadNorm | undefined,
  index: string,
): string {
  const by = axesAt === undefined ? 'position' : 'place';
  const normalize = norm === undefined ? [] : [`normalize${name}(base, ${by}, ${index}, thread);`];
  const turn = half === 0 ? [] : [`turn(${by}, thread);`];
  const lines = normsAfterRope ? [...turn, ...normalize] : [...normalize, ...turn];
  return lines.map((line) => `    ${line}`).join('\n');
}

/** Declares `normalizeQuery` and so on. Where a norm is over all heads, each workgroup reads all of them. */
function normalizing(
  { headSize, epsilon, half }: RotateShape,
  name: 'Query' | 'Key' | 'Value',
  norm: HeadNorm | undefined,
  headCount: number,
  turned: boolean,
): string {
  if (norm === undefined) return '';
  const isAll = norm.over === 'all';
  const whole = turned && half > 0 ? 'turnedAt(base, i, position)' : 'made[base + i]';
  const stats = normStats({
    name: `stats${name}`,
    parameters: 'base: u32, position: u32',
    kind: norm.norm.kind,
    size: isAll ? headCount * headSize : headSize,
    epsilon,
    threads: THREADS,
    value: isAll ? whole : 'head[i]',
  });
  const at = (start: number, isOwn: boolean) => `${start}u + ${isOwn ? `index * ${headSize}u + ` : ''}i`;
  const weightAt = at(norm.weightAt, norm.over !== 'head');
  return /* wgsl */ `${stats}
fn normalize${name}(base: u32, position: u32, index: u32, thread: u32) {
  let stats = stats${name}(base, position, thread);
  for (var i = thread; i < ${headSize}u; i += ${THREADS}u) {
    head[i] = ${normed(norm.norm, 'head[i]', weightAt, at(norm.biasAt, isAll))};
  }
  workgroupBarrier();
}`;
}

/**
 * Declares `turn`, which rotates the head, and `turnedAt`, one rotated value of all heads. Both are given the row's position,
 * or, where it has three, their place in the step.
 */
export function turning({
  half,
  headSize,
  axesAt,
}: Pick<RotateShape, 'half' | 'headSize' | 'axesAt'>): string {
  const given = axesAt === undefined ? 'position' : 'place';
  const position =
    axesAt === undefined ? '' : `  let position = step[place + u32(turns[${axesAt}u + pair].x)];\n`;
  return /* wgsl */ `
// A turn by position p is one by p / ${FINE_POSITIONS} coarse steps and one by the rest.
fn turnAt(${given}: u32, pair: u32) -> vec2<f32> {
${position}  let coarse = turns[(${FINE_POSITIONS}u + position / ${FINE_POSITIONS}u) * ${half}u + pair];
  let fine = turns[(position % ${FINE_POSITIONS}u) * ${half}u + pair];
  return vec2<f32>(fma(coarse.x, fine.x, -(coarse.y * fine.y)), fma(coarse.y, fine.x, coarse.x * fine.y));
}
fn turn(position: u32, thread: u32) {
  for (var pair = thread; pair < ${half}u; pair += ${THREADS}u) {
    let by = turnAt(position, pair);
    let first = head[pair];
    let second = head[pair + ${half}u];
    head[pair] = fma(first, by.x, -(second * by.y));
    head[pair + ${half}u] = fma(second, by.x, first * by.y);
  }
  workgroupBarrier();
}
fn turnedAt(base: u32, i: u32, position: u32) -> f32 {
  let x = made[base + i];
  let place = i % ${headSize}u;
  if (place >= ${2 * half}u) { return x; }
  let by = turnAt(position, place % ${half}u);
  if (place < ${half}u) { return fma(x, by.x, -(made[base + i + ${half}u] * by.y)); }
  return fma(x, by.x, made[base + i - ${half}u] * by.y);
}`;
}

/** Declares `storeKey` and `storeValue` of what lies in `head`. */
export const storeHeads = (layout: KvLayout): string =>
  layout.type === 'f16' ? storeHalves(layout) : storeBytes(layout);

/** A key's word lies with three others of its token, a value's with that of three other tokens. */
function storing({ keyWords, wordsPerToken }: KvLayout): string {
  return /* wgsl */ `
fn keyPlace(head: u32, token: u32, word: u32) -> u32 { return head + ((word / 4u) * 32u + token) * 4u + word % 4u; }
fn valuePlace(head: u32, token: u32, word: u32) -> u32 {
  return head + ${keyWords}u + ((token / 4u) * ${wordsPerToken}u + word) * 4u + token % 4u;
}
`;
}

/** Values beyond a half's range are held at its ends; what is no number stays none. */
function storeHalves(layout: KvLayout): string {
  const store = (what: 'key' | 'value'): string => /* wgsl */ `
fn store${what === 'key' ? 'Key' : 'Value'}(start: u32, token: u32, thread: u32) {
  for (var word = thread; word < ${layout.wordsPerToken}u; word += ${THREADS}u) {
    let pair = vec2<f32>(head[2u * word], head[2u * word + 1u]);
    let halves = pack2x16float(clamp(pair, vec2<f32>(-65504.0), vec2<f32>(65504.0)));
    let low = select(halves & 0xffffu, 0x7e00u, isSpoiled(pair.x));
    let high = select(halves >> 16u, 0x7e00u, isSpoiled(pair.y));
    kv[${what}Place(start, token, word)] = low | (high << 16u);
  }
}`;
  return spoiled + storing(layout) + store('key') + store('value');
}

/** One scale for a token's head. A value that is no number makes the scale none. */
function storeBytes(layout: KvLayout): string {
  const { wordsPerToken, headSize, keyFours, keyWords } = layout;
  const store = (what: 'key' | 'value', scaleAt: number): string => /* wgsl */ `
fn store${what === 'key' ? 'Key' : 'Value'}(start: u32, token: u32, thread: u32) {
  let most = largestOf(thread);
  let scale = most / 127.0;
  let inverse = select(0.0, 1.0 / scale, scale > 1e-30);
  for (var word = thread; word < ${wordsPerToken}u; word += ${THREADS}u) {
    let x = vec4<f32>(head[4u * word], head[4u * word + 1u], head[4u * word + 2u], head[4u * word + 3u]);
    let code = vec4<i32>(clamp(round(x * inverse), vec4<f32>(-127.0), vec4<f32>(127.0)));
    kv[${what}Place(start, token, word)] = pack4xI8(code);
  }
  if (thread == 0u) { kv[start + ${scaleAt}u + token] = select(bitcast<u32>(scale), 0x7fc00000u, most >= 3.0e38); }
}`;
  return /* wgsl */ `${spoiled}
var<workgroup> largest: array<f32, ${THREADS}>;
${storing(layout)}
fn largestOf(thread: u32) -> f32 {
  var most = 0.0;
  for (var i = thread; i < ${headSize}u; i += ${THREADS}u) {
    most = max(most, select(abs(head[i]), 3.0e38, isSpoiled(head[i])));
  }
  largest[thread] = most;
  workgroupBarrier();
  for (var half = ${THREADS / 2}u; half > 0u; half >>= 1u) {
    if (thread < half) { largest[thread] = max(largest[thread], largest[thread + half]); }
    workgroupBarrier();
  }
  return largest[0];
}
${store('key', 128 * keyFours)}
${store('value', keyWords + 32 * wordsPerToken)}`;
}
