// How wide the rows are that a model's operations work on, whatever its layers look like.

import type { AttentionSpec, BodySpec, ExpertsSpec, FeedForwardSpec, ModelSpec } from '../../model/spec.ts';
import { bodiesOf } from '../../model/spec-walk.ts';

/** Rows of a linear's input: so many of them for each row of a step. */
export interface InputWidth {
  readonly copies: number;
  readonly size: number;
}

export interface Widths {
  readonly inputs: readonly InputWidth[];
  /** Queries, keys, values and gates of an attention, and its queries alone. */
  readonly heads: number;
  readonly queries: number;
  readonly gateUp: number;
  readonly experts: number;
  /** Experts that a row chooses. */
  readonly choices: number;
  readonly hasShare: boolean;
  readonly hasPartNorm: boolean;
  /** Of all of these, for one row of a step. */
  readonly widest: number;
}

/** Values that an attention makes of a row. */
export function headValues({ query, stored, gate }: AttentionSpec): number {
  return [query, stored?.key, stored?.value, gate].reduce(
    (sum, linear) => sum + (linear?.weight.rows ?? 0),
    0,
  );
}

/** Values that a feed-forward makes of a row: gates, factors, and the row's share. */
export function feedForwardValues({ size, gate, share }: FeedForwardSpec): number {
  return (gate === undefined ? size : 2 * size) + (share === undefined ? 0 : 1);
}

export function widthsOf(spec: ModelSpec): Widths {
  const { hiddenSize } = spec;
  const bodies = bodiesOf(spec);
  const attentions = bodies.filter((body) => body.kind === 'attention');
  const feedForwards = bodies.filter((body) => body.kind === 'feed-forward');
  const mixtures = bodies.filter((body) => body.kind === 'experts');
  const most = (values: readonly number[]): number => Math.max(0, ...values);
  const inputs = [{ copies: 1, size: hiddenSize }, ...bodies.flatMap((body) => inputsOf(body, hiddenSize))];
  const widths = {
    inputs,
    heads: most(attentions.map(headValues)),
    queries: most(attentions.map(({ headCount, headSize }) => headCount * headSize)),
    gateUp: most([
      ...feedForwards.map(feedForwardValues),
      ...mixtures.map((body) => body.router.used * feedForwardValues(anyExpert(body))),
    ]),
    experts: most(mixtures.map(({ experts }) => experts.length)),
    choices: most(mixtures.map(({ router }) => router.used)),
    hasShare: feedForwards.some(({ share }) => share !== undefined),
    hasPartNorm: spec.layers.some(({ branches }) =>
      branches.some(({ parts }) => parts.some(({ output }) => output !== undefined)),
    ),
  };
  const widest = most([
    ...inputs.map(({ copies, size }) => copies * size),
    widths.heads,
    widths.queries,
    widths.gateUp,
    widths.experts,
    widths.choices * hiddenSize,
  ]);
  return { ...widths, widest };
}

/** All are alike but for their weights. */
export function anyExpert({ experts }: ExpertsSpec): FeedForwardSpec {
  return experts[0] as FeedForwardSpec;
}

/** Inputs that a body makes beside the one it reads. */
function inputsOf(body: BodySpec, hiddenSize: number): InputWidth[] {
  switch (body.kind) {
    case 'attention':
      return [{ copies: 1, size: body.headCount * body.headSize }];
    case 'feed-forward':
      return [{ copies: 1, size: body.size }];
    case 'experts': {
      const copies = body.router.used;
      const scaled = body.scalesInput ? [{ copies, size: hiddenSize }] : [];
      return [...scaled, { copies, size: anyExpert(body).size }];
    }
    default:
      return [];
  }
}
