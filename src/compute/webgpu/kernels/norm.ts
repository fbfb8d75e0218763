// Norms as kernels apply them: what is found out about a run of values by all threads together, and what becomes of one
// of them. Weights and biases, where there are any, lie in one buffer, the weights first.

import type { NormSpec } from '../../../model/spec.ts';

export interface NormShape {
  readonly kind: NormSpec['kind'];
  readonly weight: boolean;
  readonly bias: boolean;
}

interface StatsShape {
  readonly name: string;
  readonly parameters?: string;
  readonly kind: NormSpec['kind'];
  readonly size: number;
  readonly epsilon: number;
  readonly threads: number;
  /** The value at `i`. */
  readonly value: string;
}

/**
 * Declares a function that gives every thread the mean of a run, where the norm takes it off, and the factor on its
 * values; its last parameter is `thread`. `rowSum` is declared before.
 */
export function normStats(shape: StatsShape): string {
  const { name, parameters, kind, size, threads, value } = shape;
  const sumOf = (term: string): string => `
  for (var i = thread; i < ${size}u; i += ${threads}u) {
    let x = ${value};
    ${term}
  }`;
  const mean = /* wgsl */ `
  var total = 0.0;${sumOf('total += x;')}
  let mean = rowSum(total, thread) / ${size}.0;`;
  return /* wgsl */ `
fn ${name}(${parameters === undefined ? '' : `${parameters}, `}thread: u32) -> vec2<f32> {${kind === 'layer' ? mean : ''}
  var sum = 0.0;${sumOf(kind === 'layer' ? 'sum = fma(x - mean, x - mean, sum);' : 'sum = fma(x, x, sum);')}
  return vec2<f32>(${kind === 'layer' ? 'mean' : '0.0'}, 1.0 / sqrt(rowSum(sum, thread) / ${size}.0 + ${shape.epsilon}));
}`;
}

/** What becomes of `x`: `stats` is what the function above gave, the places of weight and bias are indices of `norm`. */
export function normed(
  { kind, weight, bias }: NormShape,
  x: string,
  weightAt: string,
  biasAt: string,
): string {
  const centred = kind === 'layer' ? `(${x} - stats.x)` : x;
  return `${centred} * stats.y${weight ? ` * norm[${weightAt}]` : ''}${bias ? ` + norm[${biasAt}]` : ''}`;
}
