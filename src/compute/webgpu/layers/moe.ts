// Mixture of experts: each row chooses some, rows of the same expert are gathered, and every chosen expert is multiplied
// once for all its rows. Weights of others are not read.

import type { MlpSpec, MoeSpec, RouterSpec } from '../../../model/spec.ts';
import { type DeclaredBuffer, type InputSource, type LayerOutput, valuesOf } from '../builder.ts';
import {
  COMBINED_VALUES,
  chooseExpertsKernel,
  combineExpertsKernel,
  groupChoicesKernel,
} from '../kernels/moe-routing.ts';
import type { ExpertRows, LayerBuilder } from '../linears.ts';
import { Operation } from '../operation.ts';
import { activated, mlpValues } from './mlp.ts';

export function buildMoe(
  builder: LayerBuilder,
  body: MoeSpec,
  input: InputSource,
  output: LayerOutput,
): void {
  const { router, experts } = body;
  if (experts.some(({ share }) => share !== undefined)) throw new Error('an expert has no gate of its own');
  const { linears, spec } = builder;
  const rows: ExpertRows = {
    experts: experts.length,
    choices: router.used,
    sharesInput: body.scalesInput !== true,
  };
  const scores = linears.load('router', [router.linear]);
  const inner = linears.loadExperts(
    'gate and up of experts',
    experts.map(({ gate, up }) => (gate === undefined ? [up] : [gate, up])),
  );
  const routerNorm = builder.optionalNorm(router.norm);
  const isSame = routerNorm === undefined && rows.sharesInput;
  linears.input(isSame ? [scores, inner] : [scores], routerNorm ? builder.stream(routerNorm) : input);
  const logits = builder.scratch('router logits', experts.length);
  linears.multiply(scores, { buffer: logits, stride: experts.length });
  const chosen = choose(builder, router, experts.length, logits);
  gather(builder, rows, chosen);
  if (!rows.sharesInput) {
    const source = { ...input, buffers: [...input.buffers, chosen] };
    linears.input([inner], source, { scaledChoices: rows.choices });
  } else if (!isSame) {
    linears.input([inner], input);
  }
  // All are alike but for their weights.
  const expert = experts[0] as MlpSpec;
  const stride = mlpValues(expert);
  const gateUp = builder.scratch('gate and up', rows.choices * stride);
  linears.multiplyExperts(inner, { buffer: gateUp, stride }, rows);
  const outer = linears.loadExperts(
    'down of experts',
    experts.map(({ down }) => [down]),
  );
  linears.input([outer], activated(expert, gateUp), { choices: rows.choices });
  const outputs = builder.scratch('expert outputs', rows.choices * spec.hiddenSize);
  const given = { buffer: outputs, stride: spec.hiddenSize };
  linears.multiplyExperts(outer, given, { ...rows, sharesInput: false });
  combine(builder, rows, { outputs, chosen }, output);
}

/** The experts of each row, and their factors. */
function choose(
  builder: LayerBuilder,
  router: RouterSpec,
  experts: number,
  logits: DeclaredBuffer,
): DeclaredBuffer {
  const { routingBias, expertScales } = router;
  const chosen = builder.scratch('chosen experts', 2 * router.used);
  const vectors = builder.vectors('biases and factors of experts', [routingBias, expertScales]);
  const hasBias = routingBias !== undefined;
  const hasScales = expertScales !== undefined;
  builder.add(
    'choose experts',
    () => chooseExpertsKernel({ ...router, experts, hasBias, hasScales }),
    [builder.scratchPlan.step, logits, chosen, ...vectors],
    ({ rows }) => [rows, 1],
  );
  return chosen;
}

/** The rows of each expert, in tiles that fit the step. */
function gather(builder: LayerBuilder, { experts, choices }: ExpertRows, chosen: DeclaredBuffer): void {
  const { linears, scratchPlan } = builder;
  const buffers = [scratchPlan.step, chosen, linears.expertTiles(choices)];
  builder.addAll(async ({ rows: mostRows }) => {
    const tiles = linears.expertTileRows(experts, choices);
    const variants = tiles.rows.map((rows) => ({
      text: groupChoicesKernel({ experts, choices, rows, mostChoices: mostRows * choices }),
      grid: () => [1, 1] as const,
    }));
    return [new Operation('rows of experts', variants, valuesOf(buffers), tiles.choose)];
  });
}

function combine(
  builder: LayerBuilder,
  { choices, sharesInput }: ExpertRows,
  { outputs, chosen }: { readonly outputs: DeclaredBuffer; readonly chosen: DeclaredBuffer },
  { buffer, adds, scale }: LayerOutput,
): void {
  const { hiddenSize: size } = builder.spec;
  // Factors were on what experts read, where each choice had an input of its own.
  const weighted = sharesInput;
  builder.add(
    'combine experts',
    () => combineExpertsKernel({ size, choices, weighted, scale, adds }),
    [builder.scratchPlan.step, outputs, ...(weighted ? [chosen] : []), buffer],
    ({ rows }) => [Math.ceil(size / COMBINED_VALUES), rows],
  );
}
