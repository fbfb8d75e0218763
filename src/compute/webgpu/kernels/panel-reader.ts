// Reading a column of a panel (see format.ts): one group's codes as signed bytes, and its scales.

import { type CodedFormat, type FloatFormat, scaleWords } from '../format.ts';

/**
 * Declares `loadWords`, `codesOf` what it gave, and `loadScales` over the buffers `codes` and `scales`; `at` counts
 * groups, panel by panel.
 */
export function codeReader(format: CodedFormat): string {
  return /* wgsl */ `
struct Codes { low: vec4<u32>, high: vec4<u32> }
${format.codebook === undefined ? '' : lookup(format.codebook.steps)}
${wordReader(format)}
// Scales of both halves, then minimums.
fn loadScales(at: u32, lane: u32) -> vec4<f32> {
  let words = ${format.groupsPerScale === 1 ? 'at' : `(at / ${format.groupsPerScale}u)`} * ${scaleWords(format)}u;
${scaleBody(format)}
}
`;
}

function wordReader({ encoding }: CodedFormat): string {
  if (encoding === 'byte') {
    return /* wgsl */ `
alias Words = Codes;
fn loadWords(at: u32, lane: u32) -> Words { return Codes(codes[at * 64u + 2u * lane], codes[at * 64u + 2u * lane + 1u]); }
fn codesOf(words: Words) -> Codes { return words; }`;
  }
  const nibbles = 'words & vec4<u32>(0x0f0f0f0fu), (words >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)';
  const codes = {
    // In the upper half of its byte a signed nibble is sixteen times what it stands for: scales make up for it.
    signed: 'Codes((words << vec4<u32>(4u)) & vec4<u32>(0xf0f0f0f0u), words & vec4<u32>(0xf0f0f0f0u))',
    nibble: `Codes(${nibbles})`,
    codebook:
      'Codes(stepsOf(words & vec4<u32>(0x0f0f0f0fu)), stepsOf((words >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)))',
  }[encoding];
  return /* wgsl */ `
alias Words = vec4<u32>;
fn loadWords(at: u32, lane: u32) -> Words { return codes[at * 32u + lane]; }
fn codesOf(words: Words) -> Codes { return ${codes}; }`;
}

/** Four nibbles a word to four steps a word. */
function lookup(steps: Int8Array<ArrayBuffer>): string {
  const words = new Uint32Array(steps.buffer);
  return /* wgsl */ `
const steps = array<u32, 4>(${[...words].map((word) => `${word}u`).join(', ')});
fn stepOf(nibble: u32) -> u32 { return (steps[nibble >> 2u] >> (8u * (nibble & 3u))) & 255u; }
fn stepsOfWord(word: u32) -> u32 {
  return stepOf(word & 15u) | (stepOf((word >> 8u) & 15u) << 8u) | (stepOf((word >> 16u) & 15u) << 16u) |
    (stepOf(word >> 24u) << 24u);
}
fn stepsOf(words: vec4<u32>) -> vec4<u32> {
  return vec4<u32>(stepsOfWord(words.x), stepsOfWord(words.y), stepsOfWord(words.z), stepsOfWord(words.w));
}`;
}

function scaleBody({ encoding, scale, halves, hasMinimum, isLowered }: CodedFormat): string {
  const unit = encoding === 'signed' ? ' * 0.0625' : '';
  const raised = (step: string, minimum: string) => (isLowered ? `fma(128.0, ${step}, ${minimum})` : minimum);
  if (scale === 'power') {
    return `  let powers = scales[words + (lane >> 2u)];
  let one = bitcast<f32>(((powers >> (8u * (lane & 3u))) & 255u) << 23u);
  return vec4<f32>(one, one, 0.0, 0.0);`;
  }
  const word = (index: number) => `scales[words + ${index * 32}u + lane]`;
  if (scale === 'f32') {
    const number = (index: number) => `bitcast<f32>(${word(index)})`;
    const [first, second] = halves ? [number(0), number(1)] : [number(0), number(0)];
    const [third, fourth] = !hasMinimum
      ? ['0.0', '0.0']
      : halves
        ? [number(2), number(3)]
        : [raised(number(0), number(1)), raised(number(0), number(1))];
    return `  return vec4<f32>(${first}, ${second}, ${third}, ${fourth});`;
  }
  if (!halves && !hasMinimum) {
    return `  let pair = ${floatPair(scale, 'scales[words + (lane >> 1u)]')};
  let one = select(pair.x, pair.y, (lane & 1u) == 1u);
  return vec4<f32>(one, one, 0.0, 0.0)${unit};`;
  }
  const first = `  let first = ${floatPair(scale, word(0))};`;
  if (halves && hasMinimum) {
    return `${first}\n  let second = ${floatPair(scale, word(1))};\n  return vec4<f32>(first, second);`;
  }
  return halves
    ? `${first}\n  return vec4<f32>(first, 0.0, 0.0)${unit};`
    : `${first}\n  let minimum = ${raised('first.x', 'first.y')};\n  return vec4<f32>(first.x, first.x, minimum, minimum);`;
}

function floatPair(type: 'f16' | 'bf16', word: string): string {
  return type === 'f16'
    ? `unpack2x16float(${word})`
    : `vec2<f32>(bitcast<f32>(${word} << 16u), bitcast<f32>(${word} & 0xffff0000u))`;
}

/** Declares `loadPair` over the buffer `codes`: two weights of a column. */
export function pairReader({ encoding }: FloatFormat): string {
  const pair = {
    f16: floatPair('f16', 'codes[at]'),
    bf16: floatPair('bf16', 'codes[at]'),
    f32: 'vec2<f32>(bitcast<f32>(codes[at]), bitcast<f32>(codes[at + 32u]))',
  }[encoding];
  return `fn loadPair(at: u32) -> vec2<f32> { return ${pair}; }`;
}
