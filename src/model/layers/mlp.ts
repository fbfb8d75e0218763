// The feed-forward of one layer: one, or a mixture of experts.

import type { ExpertTraits, LayerTraits } from '../architecture.ts';
import { linearSpec } from '../linear-spec.ts';
import type { LinearSpec, MlpSpec, MoeSpec, NormSpec, PartSpec, RouterSpec } from '../spec.ts';
import { normOf, type SpecParts, vectorSpec } from '../spec-parts.ts';
import type { ExpertLayout, TensorNames } from '../tensor-names.ts';

/** Parts of the branch behind attention: `input` is the norm before them. */
export function feedingParts(
  parts: SpecParts,
  layer: LayerTraits,
  index: number,
  input: NormSpec | undefined,
): PartSpec[] {
  const behind = input === undefined ? {} : { input };
  if (!layer.experts) return [{ ...behind, body: mlpSpec(parts, layer, index) }];
  if (!parts.traits.experts?.beside) {
    const bodies = [moeSpec(parts, index), ...sharedExpertSpec(parts, index)];
    return bodies.map((body) => ({ ...behind, body }));
  }
  return [
    { ...behind, body: mlpSpec(parts, layer, index), output: normOf(parts, index, 'ffnOwnPostNorm') },
    {
      input: normOf(parts, index, 'expertsNorm'),
      body: moeSpec(parts, index),
      output: normOf(parts, index, 'expertsPostNorm'),
    },
  ];
}

function mlpSpec({ sizes, traits, names }: SpecParts, { gateCutoff }: LayerTraits, index: number): MlpSpec {
  const { hiddenSize: columns } = sizes;
  const size = traits.ffnSize ?? sizes.ffnSize;
  const fused = traits.fusedGateUp === true;
  const common = { columns, rows: size, bias: traits.ffnBias };
  const gate = linearSpec(names, index, { ...common, role: fused ? 'gateUp' : 'gate' });
  return {
    kind: 'mlp',
    size,
    activation: traits.activation,
    ...(traits.ungated ? {} : { gate }),
    up: linearSpec(names, index, {
      ...common,
      role: fused ? 'gateUp' : 'up',
      firstRow: fused ? size : 0,
    }),
    down: linearSpec(names, index, { role: 'down', rows: columns, columns: size, bias: traits.ffnBias }),
    ...(gateCutoff === undefined ? {} : { gateCutoff }),
  };
}

/** The one that every row goes through, where there is one. */
function sharedExpertSpec({ sizes, traits, names }: SpecParts, index: number): MlpSpec[] {
  const shared = traits.experts?.shared;
  if (shared === undefined) return [];
  const { hiddenSize: columns } = sizes;
  const { size, fused } = shared;
  const share = linearSpec(names, index, { role: 'sharedShare', rows: 1, columns });
  return [
    {
      kind: 'mlp',
      size,
      activation: traits.activation,
      gate: linearSpec(names, index, { role: fused ? 'sharedGateUp' : 'sharedGate', rows: size, columns }),
      up: linearSpec(names, index, {
        role: fused ? 'sharedGateUp' : 'sharedUp',
        rows: size,
        columns,
        firstRow: fused ? size : 0,
      }),
      down: linearSpec(names, index, { role: 'sharedDown', rows: columns, columns: size }),
      ...(shared.gated ? { share } : {}),
    },
  ];
}

function moeSpec(parts: SpecParts, index: number): MoeSpec {
  const { sizes, traits, names } = parts;
  const experts = traits.experts as ExpertTraits;
  const linear = linearSpec(names, index, {
    role: 'router',
    rows: experts.count,
    columns: sizes.hiddenSize,
    bias: experts.routerBias,
  });
  return {
    kind: 'moe',
    router: { linear, ...routerExtras(parts, experts, index), ...experts.router },
    experts: Array.from({ length: experts.count }, (_, expert) => ({
      kind: 'mlp',
      size: experts.size,
      activation: traits.activation,
      ...expertLinears(parts, experts, index, expert),
    })),
    ...(experts.scalesInput ? { scalesInput: true } : {}),
  };
}

function routerExtras(
  parts: SpecParts,
  { count, expertScales, routerNorm, routingBias }: ExpertTraits,
  index: number,
): Pick<RouterSpec, 'routingBias' | 'expertScales' | 'norm'> {
  const { sizes, names, opened } = parts;
  const bias = names.bias(index, 'routingBias');
  const isLeftOut =
    routingBias === 'not-in-mlx' && names.has(index, 'switchDowns') && !opened.weights.tensors.has(bias);
  return {
    ...(routingBias && !isLeftOut ? { routingBias: vectorSpec(bias, count) } : {}),
    ...(expertScales ? { expertScales: vectorSpec(names.weight(index, 'expertScales'), count) } : {}),
    ...(routerNorm
      ? {
          norm: {
            leaf: 'norm',
            kind: 'rms',
            size: sizes.hiddenSize,
            weight: names.weight(index, 'routerNorm'),
            ...routerNorm,
          },
        }
      : {}),
  };
}

function storedLayout(names: TensorNames, index: number): ExpertLayout {
  if (names.has(index, 'expertDown', 0)) return 'each';
  if (names.has(index, 'switchDowns')) return 'switch';
  return names.has(index, 'expertGateUps') ? 'stacked with gates and ups in one' : 'stacked';
}

type ExpertLinears = Readonly<Record<'gate' | 'up' | 'down', LinearSpec>>;

/** Experts have tensors of their own, or share one as mlx-lm or as the hub stores them, which may join gates and ups. */
function expertLinears(
  parts: SpecParts,
  experts: ExpertTraits,
  index: number,
  expert: number,
): ExpertLinears {
  const { sizes, names } = parts;
  const { hiddenSize } = sizes;
  const { size, biases: bias } = experts;
  const inner = { rows: size, columns: hiddenSize, bias };
  const outer = { rows: hiddenSize, columns: size, bias };
  const layout = parts.expertLayout ?? storedLayout(names, index);
  if (layout === 'each') {
    return {
      gate: linearSpec(names, index, { ...inner, role: 'expertGate', expert }),
      up: linearSpec(names, index, { ...inner, role: 'expertUp', expert }),
      down: linearSpec(names, index, { ...outer, role: 'expertDown', expert }),
    };
  }
  const gatesAndUps = { ...inner, firstRow: expert * size };
  const downs = { ...outer, firstRow: expert * hiddenSize };
  if (layout === 'switch') {
    return {
      gate: linearSpec(names, index, { ...gatesAndUps, role: 'switchGates' }),
      up: linearSpec(names, index, { ...gatesAndUps, role: 'switchUps' }),
      down: linearSpec(names, index, { ...downs, role: 'switchDowns' }),
    };
  }
  const turned = (rows: number) => (experts.transposed ? { transposed: { rows } } : {});
  const down = linearSpec(names, index, { ...downs, role: 'expertDowns', ...turned(hiddenSize) });
  if (layout === 'stacked') {
    return {
      gate: linearSpec(names, index, { ...gatesAndUps, role: 'expertGates', ...turned(size) }),
      up: linearSpec(names, index, { ...gatesAndUps, role: 'expertUps', ...turned(size) }),
      down,
    };
  }
  const both = { ...inner, role: 'expertGateUps', ...turned(2 * size) } as const;
  const firstRow = expert * 2 * size;
  const runs = experts.alternatingGateUp ? { runs: { rows: 1, every: 2 } } : {};
  return {
    gate: linearSpec(names, index, { ...both, firstRow, ...runs }),
    up: linearSpec(names, index, {
      ...both,
      firstRow: firstRow + (experts.alternatingGateUp ? 1 : size),
      ...runs,
    }),
    down,
  };
}
