// What all kernels of attention do to a score, what a query sees, and how two parts of a softmax are joined: the largest
// score, the sum of weights and the weighted values of each. All are made of the same lines, so that a history gives the
// same bits however it is divided.

import { softCap } from './activation.ts';

/** Less than any score. */
export const NOTHING = '-3.0e38';

export interface ScoreShape {
  readonly bidirectional?: boolean | undefined;
  /** Rows of an image see all of it; `placeReader` is declared before. */
  readonly imagesBothWays?: boolean | undefined;
  readonly window?: number | undefined;
  readonly chunk?: number | undefined;
  readonly scale: number;
  readonly softcap?: number | undefined;
  /** Whether each head has a score that stands for no token. */
  readonly hasSinks?: boolean | undefined;
}

/** Declares `scoreOf` a query's product with a key; `keyScale` is declared before. */
export function scoreMaker({ scale, softcap }: ScoreShape): string {
  return /* wgsl */ `${softcap === undefined ? '' : softCap}
fn scoreOf(product: f32, start: u32, token: u32) -> f32 {
  let score = product * keyScale(start, token) * ${scale};
  return ${softcap === undefined ? 'score' : `capped(score, ${softcap})`};
}`;
}

/** The first position that a query at `own` sees. */
export function firstSeen({ window, chunk }: ScoreShape, own: string): string {
  const inWindow = window === undefined ? '0u' : `u32(max(i32(${own}) - ${window - 1}, 0))`;
  return chunk === undefined ? inWindow : `max(${inWindow}, ${own} - ${own} % ${chunk}u)`;
}

/** The last one, in a text whose last position is `textLast`; `firstRow` is the one at `position`. */
export function lastSeen({ bidirectional, imagesBothWays, window }: ScoreShape, own: string): string {
  if (imagesBothWays) return `max(${own} + 1u, imageEnd(firstRow + ${own} - position)) - 1u`;
  if (!bidirectional) return own;
  return window === undefined ? 'textLast' : `min(${own} + ${window - 1}u, textLast)`;
}

/** Names of variables, or what stands for them. */
interface Part {
  readonly m: string;
  readonly l: string;
  readonly values: readonly string[];
}

/** Adds a part to a whole, all of whose names are variables, floats or vec4s of them. */
export function joinParts(whole: Part, part: Part, type: 'f32' | 'vec4<f32>' = 'f32'): string {
  const lines = whole.values.map(
    (value, i) => `${value} = fma(${value}, ${type}(keep), ${part.values[i]} * take);`,
  );
  return /* wgsl */ `{
      let larger = max(${whole.m}, ${part.m});
      let keep = exp(${whole.m} - larger);
      let take = exp(${part.m} - larger);
      ${whole.l} = fma(${whole.l}, keep, ${part.l} * take);
      ${lines.join('\n      ')}
      ${whole.m} = larger;
    }`;
}

/** Declares the heads' sinks, where there are any. */
export const sinkBuffer = ({ hasSinks }: ScoreShape, binding: number): string =>
  hasSinks ? `@group(0) @binding(${binding}) var<storage, read> sinks: array<f32>;` : '';

/** Adds the sink of `head`, which takes its share for nothing, to a whole. */
export function joinSink({ hasSinks }: ScoreShape, whole: Part, type: 'f32' | 'vec4<f32>' = 'f32'): string {
  if (!hasSinks) return '';
  return joinParts(
    whole,
    { m: 'sinks[head]', l: '1.0', values: whole.values.map(() => `${type}(0.0)`) },
    type,
  );
}

const names = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${prefix}${i}`);

/** `m`, `l`, `acc0` and so on. */
export const partOf = (values: number): Part => ({ m: 'm', l: 'l', values: names('acc', values) });
/** `M`, `L`, `ACC0` and so on, with a prefix where given. */
export const wholeOf = (values: number, prefix = ''): Part => ({
  m: `${prefix}M`,
  l: `${prefix}L`,
  values: names(`${prefix}ACC`, values),
});
