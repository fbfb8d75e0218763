// Rows of a table, one for each row of a step: by its token, by its position, or the same for all. One workgroup a row.

import { type FloatFormat, type Format, floatWords } from '../format.ts';
import { codeReader, pairReader } from './panel-reader.ts';
import { stepReader } from './step-layout.ts';

export interface EmbedShape {
  readonly format: Format;
  readonly size: number;
  readonly scale: number;
  /** How rows of a step find theirs; by their tokens where absent. */
  readonly by?: 'token' | 'position' | 'first';
  /** Tokens that this part of the matrix holds. */
  readonly firstToken: number;
  readonly tokens: number;
  /** Tokens of the whole matrix; those beyond take the first one's row. Absent: there are none beyond. */
  readonly known?: number;
  readonly adds?: boolean;
}

const entries = { token: 'rowToken(row)', position: 'rowPosition(row)', first: '0u' } as const;

/** Bindings: codes, scales (coded alone), residual, step. */
export function embedKernel(shape: EmbedShape): string {
  const { format } = shape;
  const body = format.kind === 'coded' ? codedBody(shape) : floatBody(shape, format);
  const bindings =
    format.kind === 'coded'
      ? `@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;
${codeReader(format)}`
      : `@group(0) @binding(0) var<storage, read> codes: array<u32>;
${pairReader(format)}`;
  return /* wgsl */ `
${bindings}
@group(0) @binding(${format.kind === 'coded' ? 2 : 1}) var<storage, read_write> residual: array<f32>;
${stepReader(format.kind === 'coded' ? 3 : 2)}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.x;
  if (row >= rowCount()) { return; }
  let entry = ${entries[shape.by ?? 'token']};
  let token = ${shape.known === undefined ? 'entry' : `select(0u, entry, entry < ${shape.known}u)`} - ${shape.firstToken}u;
  if (token >= ${shape.tokens}u) { return; }
${body}
}
`;
}

function codedBody({ size, scale, adds }: EmbedShape): string {
  const groups = size / 32;
  return /* wgsl */ `
  for (var group = thread; group < ${groups}u; group += 64u) {
    let code = codesOf(loadWords((token / 32u) * ${groups}u + group, token % 32u));
    let scale = loadScales((token / 32u) * ${groups}u + group, token % 32u);
    for (var i = 0u; i < 16u; i++) {
      let low = extractBits(i32(code.low[i / 4u]), 8u * (i % 4u), 8u);
      let high = extractBits(i32(code.high[i / 4u]), 8u * (i % 4u), 8u);
      let at = row * ${size}u + group * 32u + i;
      residual[at] ${adds ? '+=' : '='} fma(f32(low), scale.x, scale.z) * ${scale};
      residual[at + 16u] ${adds ? '+=' : '='} fma(f32(high), scale.y, scale.w) * ${scale};
    }
  }`;
}

function floatBody({ size, scale, adds }: EmbedShape, format: FloatFormat): string {
  const pairs = Math.ceil(size / 2);
  return /* wgsl */ `
  for (var pair = thread; pair < ${pairs}u; pair += 64u) {
    let at = ((token / 32u) * ${pairs}u + pair) * ${floatWords(format)}u + token % 32u;
    let weight = loadPair(at);
    residual[row * ${size}u + 2u * pair] ${adds ? '+=' : '='} weight.x * ${scale};
    if (2u * pair + 1u < ${size}u) { residual[row * ${size}u + 2u * pair + 1u] ${adds ? '+=' : '='} weight.y * ${scale}; }
  }`;
}
