// AltUp's residual streams. The first has a buffer of its own, the others lie side by side in rows of another. One
// workgroup takes a row, each thread some values of all streams.

import { stepReader } from './step-layout.ts';
import { rowSum } from './wgsl.ts';

export interface AltUpShape {
  readonly size: number;
  /** Streams next to the first. */
  readonly others: number;
}

const THREADS = 256;
/** A stream that is scaled counts with this mean square at least. */
const LEAST_SQUARE = 1e-5;

const streamBuffers = /* wgsl */ `
@group(0) @binding(1) var<storage, read_write> first: array<f32>;
@group(0) @binding(2) var<storage, read_write> others: array<f32>;`;

function kernel({ size, others }: AltUpShape, declared: string, once: string, body: string): string {
  return /* wgsl */ `
${stepReader(0)}${streamBuffers}
${declared}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.x;
  if (row >= rowCount()) { return; }
  let base = row * ${size}u;
  let othersAt = row * ${others * size}u;
${once}
  for (var i = thread; i < ${size}u; i += ${THREADS}u) {
${body}
  }
}
`;
}

/** Others are scaled to the root mean square of the first; or all become their mean, which is the first. */
export function scaleAltUpKernel(shape: AltUpShape, becomes: 'scaled' | 'mean'): string {
  const { size, others } = shape;
  const declared = /* wgsl */ `${rowSum(THREADS)}
var<private> factors: array<f32, ${others}>;
fn squares(isFirst: bool, at: u32, thread: u32) -> f32 {
  var sum = 0.0;
  for (var i = thread; i < ${size}u; i += ${THREADS}u) {
    let x = select(others[at + i], first[at + i], isFirst);
    sum = fma(x, x, sum);
  }
  return rowSum(sum, thread) / ${size}.0;
}`;
  const once = /* wgsl */ `  let wanted = squares(true, base, thread);
  for (var k = 0u; k < ${others}u; k++) {
    factors[k] = sqrt(wanted / max(squares(false, othersAt + k * ${size}u, thread), ${LEAST_SQUARE}));
  }`;
  const body =
    becomes === 'scaled'
      ? `    for (var k = 0u; k < ${others}u; k++) { others[othersAt + k * ${size}u + i] *= factors[k]; }`
      : `    var sum = first[base + i];
    for (var k = 0u; k < ${others}u; k++) { sum = fma(others[othersAt + k * ${size}u + i], factors[k], sum); }
    first[base + i] = sum / ${others + 1}.0;`;
  return kernel(shape, declared, once, body);
}

const coefficientBuffers = /* wgsl */ `
@group(0) @binding(3) var<storage, read> coefficients: array<f32>;
@group(0) @binding(4) var<storage, read_write> predicted: array<f32>;`;

/** Bindings: step, first, others, coefficients, the first's prediction, which is kept. */
export function predictAltUpKernel(shape: AltUpShape): string {
  const { size, others } = shape;
  const count = others + 1;
  const body = /* wgsl */ `
    var before: array<f32, ${count}>;
    before[0] = first[base + i];
    for (var k = 0u; k < ${others}u; k++) { before[k + 1u] = others[othersAt + k * ${size}u + i]; }
    for (var k = 0u; k < ${count}u; k++) {
      var sum = before[k];
      for (var j = 0u; j < ${count}u; j++) {
        sum = fma(coefficients[(row * ${count}u + k) * ${count}u + j], before[j], sum);
      }
      if (k == 0u) {
        first[base + i] = sum;
        predicted[base + i] = sum;
      } else {
        others[othersAt + (k - 1u) * ${size}u + i] = sum;
      }
    }`;
  return kernel(shape, coefficientBuffers, '', body);
}

/** Bindings: step, first, others, coefficients, the first's prediction. */
export function correctAltUpKernel(shape: AltUpShape): string {
  const { size, others } = shape;
  const body = /* wgsl */ `
    let change = first[base + i] - predicted[base + i];
    let own = row * ${others + 1}u;
    first[base + i] = fma(1.0 + coefficients[own], change, predicted[base + i]);
    for (var k = 0u; k < ${others}u; k++) {
      let at = othersAt + k * ${size}u + i;
      others[at] = fma(1.0 + coefficients[own + k + 1u], change, others[at]);
    }`;
  return kernel(shape, coefficientBuffers, '', body);
}

/** Adds the same to all streams but the first. Bindings: step, first, others, what is added. */
export function addToStreamsKernel(shape: AltUpShape): string {
  const { size, others } = shape;
  const declared = '@group(0) @binding(3) var<storage, read> added: array<f32>;';
  const body = `    for (var k = 0u; k < ${others}u; k++) { others[othersAt + k * ${size}u + i] += added[base + i]; }`;
  return kernel(shape, declared, '', body);
}

/** The first stream with a factor on each value. Bindings: step, first, output, factors. */
export function scaleFirstKernel({ size }: Pick<AltUpShape, 'size'>): string {
  const declared = '@group(0) @binding(3) var<storage, read> factors: array<f32>;';
  return kernel({ size, others: 1 }, declared, '', '    others[base + i] = first[base + i] * factors[i];');
}
