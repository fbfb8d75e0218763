// The operations of a mixture of experts: each row chooses some, rows of the same expert are gathered, and every expert that
// was chosen is multiplied once for all its rows. Weights of others are not read.

import type { MoeSpec, RouterSpec } from '../../../model/spec.ts';
import type { BodyOutput, Builder, InputSource } from '../builder.ts';
import { chooseExpertsKernel } from '../kernels/choose-experts.ts';
import { COMBINED_VALUES, combineExpertsKernel } from '../kernels/combine-experts.ts';
import { groupChoicesKernel } from '../kernels/group-choices.ts';
import type { ExpertRows, Linears } from '../linears.ts';
import { Operation } from '../operation.ts';
import { anyExpert, feedForwardValues } from '../widths.ts';
import { activated } from './mlp.ts';

export async function buildMoe(
  builder: Builder,
  linears: Linears,
  body: MoeSpec,
  input: InputSource,
  output: BodyOutput,
): Promise<void> {
  const { router, experts } = body;
  if (experts.some(({ share }) => share !== undefined)) throw new Error('an expert has no share of its own');
  const { scratch, spec } = builder;
  const rows: ExpertRows = {
    experts: experts.length,
    choices: router.used,
    sharesInput: body.scalesInput !== true,
  };
  const scores = await linears.load('router', [router.linear]);
  const inner = await linears.loadExperts(
    'gate and up of experts',
    experts.map(({ gate, up }) => (gate === undefined ? [up] : [gate, up])),
  );
  const routerNorm = await builder.optionalNorm(router.norm);
  const isSame = routerNorm === undefined && rows.sharesInput;
  linears.input(isSame ? [scores, inner] : [scores], routerNorm ? builder.stream(routerNorm) : input);
  await linears.multiply(scores, { buffer: scratch.routes, stride: experts.length });
  await choose(builder, router, experts.length);
  gather(builder, linears, rows);
  if (!rows.sharesInput) {
    const source = { ...input, buffers: [...input.buffers, scratch.choices] };
    linears.input([inner], source, { scaledChoices: rows.choices });
  } else if (!isSame) {
    linears.input([inner], input);
  }
  const expert = anyExpert(body);
  const stride = feedForwardValues(expert);
  await linears.multiplyExperts(inner, { buffer: scratch.gateUp, stride }, rows);
  const outer = await linears.loadExperts(
    'down of experts',
    experts.map(({ down }) => [down]),
  );
  linears.input([outer], activated(builder, expert, stride), { choices: rows.choices });
  const given = { buffer: scratch.opinions, stride: spec.hiddenSize };
  await linears.multiplyExperts(outer, given, { ...rows, sharesInput: false });
  combine(builder, rows, output);
}

/** The experts of each row. */
async function choose(builder: Builder, router: RouterSpec, experts: number): Promise<void> {
  const { step, routes, choices } = builder.scratch;
  const { routingBias, expertScales } = router;
  const vectors = await builder.vectors('biases and factors of experts', [
    builder.vector(routingBias),
    builder.vector(expertScales),
  ]);
  const text = chooseExpertsKernel({
    ...router,
    experts,
    hasBias: routingBias !== undefined,
    hasScales: expertScales !== undefined,
  });
  builder.add('choose experts', text, [step, routes, choices, ...vectors], ({ rows }) => [rows, 1]);
}

/** The rows of each expert, in tiles that fit the step. */
function gather({ scratch, operations }: Builder, linears: Linears, { experts, choices }: ExpertRows): void {
  const { step, choices: chosen, groups } = scratch;
  const tiles = linears.expertTileRows(experts, choices);
  const mostChoices = scratch.rows * choices;
  const variants = tiles.rows.map((rows) => ({
    text: groupChoicesKernel({ experts, choices, rows, mostChoices }),
    grid: () => [1, 1] as const,
  }));
  operations.push(new Operation('rows of experts', variants, [step, chosen, groups], tiles.choose));
}

function combine(
  builder: Builder,
  { choices, sharesInput }: ExpertRows,
  { buffer, adds, scale }: BodyOutput,
): void {
  const { step, opinions, choices: chosen } = builder.scratch;
  const { hiddenSize: size } = builder.spec;
  // Factors were on what experts read, where each choice had an input of its own.
  const weighted = sharesInput;
  const text = combineExpertsKernel({ size, choices, weighted, scale, adds });
  const buffers = [step, opinions, ...(weighted ? [chosen] : []), buffer];
  builder.add('combine experts', text, buffers, ({ rows }) => [Math.ceil(size / COMBINED_VALUES), rows]);
}
