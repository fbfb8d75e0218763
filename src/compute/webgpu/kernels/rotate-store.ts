// Queries and keys: normalized where the model does so, and turned; keys and values go into their block. One workgroup
// takes one head of one row; the heads of a row are its queries, its keys, its values.

import type { KvLayout } from './kv-layout.ts';
import { rowSum } from './row-sum.ts';
import { spoiled } from './spoiled.ts';
import { stepReader } from './step-layout.ts';

export interface RotateShape {
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  /** Pairs (i, i + half) that are turned. */
  readonly half: number;
  readonly queryNorm: boolean;
  readonly keyNorm: boolean;
  readonly epsilon: number;
  readonly layout: KvLayout;
}

/** Positions that the fine table of a rotary embedding covers; the coarse one counts in steps of it. */
export const FINE_POSITIONS = 256;

const THREADS = 64;

/** Bindings: step, rows of queries, keys and values, K/V, turns, norm weights of queries and of keys. */
export function rotateStoreKernel(shape: RotateShape): string {
  const { headCount, kvHeadCount, headSize, half, layout } = shape;
  const stride = (headCount + 2 * kvHeadCount) * headSize;
  return /* wgsl */ `
${stepReader(0)}
@group(0) @binding(1) var<storage, read_write> heads: array<f32>;
@group(0) @binding(2) var<storage, read_write> kv: array<u32>;
@group(0) @binding(3) var<storage, read> turns: array<vec2<f32>>;
${shape.queryNorm ? '@group(0) @binding(4) var<storage, read> queryWeight: array<f32>;' : ''}
${shape.keyNorm ? '@group(0) @binding(5) var<storage, read> keyWeight: array<f32>;' : ''}
var<workgroup> head: array<f32, ${4 * Math.ceil(headSize / 4)}>;
${layout.type === 'q8' ? `var<workgroup> largest: array<f32, ${THREADS}>;` : ''}
${shape.queryNorm || shape.keyNorm ? normFactor(headSize, shape.epsilon) : ''}
// A turn by position p is one by p / ${FINE_POSITIONS} coarse steps and one by the rest.
fn turnAt(position: u32, pair: u32) -> vec2<f32> {
  let coarse = turns[(${FINE_POSITIONS}u + position / ${FINE_POSITIONS}u) * ${half}u + pair];
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
${layout.type === 'f16' ? storeHalves(layout) : storeBytes(layout)}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = group.y;
  if (row >= rowCount()) { return; }
  let index = group.x;
  let base = row * ${stride}u + index * ${headSize}u;
  for (var i = thread; i < ${headSize}u; i += ${THREADS}u) { head[i] = heads[base + i]; }
  workgroupBarrier();
  if (index < ${headCount}u) {
    ${shape.queryNorm ? scale('queryWeight') : ''}
    turn(rowPosition(row), thread);
    for (var i = thread; i < ${headSize}u; i += ${THREADS}u) { heads[base + i] = head[i]; }
    return;
  }
  let slot = rowSlot(row);
  let token = slot % 32u;
  let block = (slot / 32u) * ${layout.blockWords}u;
  if (index < ${headCount + kvHeadCount}u) {
    ${shape.keyNorm ? scale('keyWeight') : ''}
    turn(rowPosition(row), thread);
    storeKey(block + (index - ${headCount}u) * ${layout.headWords}u, token, thread);
  } else {
    storeValue(block + (index - ${headCount + kvHeadCount}u) * ${layout.headWords}u, token, thread);
  }
}
`;

  function scale(weight: string): string {
    return `{
      let factor = normFactor(thread);
      for (var i = thread; i < ${headSize}u; i += ${THREADS}u) { head[i] = head[i] * factor * ${weight}[i]; }
      workgroupBarrier();
    }`;
  }
}

function normFactor(size: number, epsilon: number): string {
  return /* wgsl */ `
${rowSum(THREADS)}
fn normFactor(thread: u32) -> f32 {
  var sum = 0.0;
  for (var i = thread; i < ${size}u; i += ${THREADS}u) { sum = fma(head[i], head[i], sum); }
  return 1.0 / sqrt(rowSum(sum, thread) / ${size}.0 + ${epsilon});
}`;
}

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
