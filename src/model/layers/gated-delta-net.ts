// The gated delta net of one layer.

import type { GatedDeltaNetTraits } from '../architecture.ts';
import { linearSpec } from '../linear-spec.ts';
import type { GatedDeltaNetSpec, LinearSpec, RowSlice } from '../spec.ts';
import { normNamed, rateSpec, type SpecParts, vectorSpec } from '../spec-parts.ts';
import type { LayerRole } from '../tensor-names.ts';

export function gatedDeltaNetSpec(
  parts: SpecParts,
  traits: GatedDeltaNetTraits,
  index: number,
  state: number,
): GatedDeltaNetSpec {
  const { sizes, names } = parts;
  const { keyHeads, keySize, valueHeads, valueSize, length, sharing } = traits;
  const { normOffset: _, ...plain } = parts.traits;
  const channels = 2 * keyHeads * keySize + valueHeads * valueSize;
  return {
    kind: 'gated-delta-net',
    state,
    keyHeads,
    keySize,
    valueHeads,
    valueSize,
    sharing,
    ...largeProjections(parts, traits, index),
    ...smallProjections(parts, traits, index),
    convolution: {
      weight: vectorSpec(names.weight(index, 'deltaConvolution'), channels * length),
      length,
    },
    decayBias: vectorSpec(names.bias(index, 'deltaDecayBias'), valueHeads),
    decayRate: rateSpec(names.weight(index, 'deltaRate'), valueHeads, traits.logarithmicRates),
    norm: normNamed(plain, names.weight(index, 'deltaNorm'), valueSize),
    output: linearSpec(names, index, {
      role: 'deltaOutput',
      rows: sizes.hiddenSize,
      columns: valueHeads * valueSize,
    }),
  };
}

type Linears<Names extends string> = Readonly<Record<Names, LinearSpec>>;

/** By themselves, or in one tensor for each key head: its query, its key, the values and gates of its value heads. */
function largeProjections(
  { sizes, names }: SpecParts,
  traits: GatedDeltaNetTraits,
  index: number,
): Linears<'query' | 'key' | 'value' | 'gate'> {
  const { keyHeads, keySize, valueHeads, valueSize } = traits;
  const keyRows = keyHeads * keySize;
  const valueRows = valueHeads * valueSize;
  const linear = (role: LayerRole, rows: number, firstRow: number, runs?: RowSlice['runs']) =>
    linearSpec(names, index, {
      role,
      rows,
      firstRow,
      columns: sizes.hiddenSize,
      ...(runs === undefined ? {} : { runs }),
    });
  if (!traits.largeByKeyHead) {
    return {
      query: linear('deltaQueryKeyValue', keyRows, 0),
      key: linear('deltaQueryKeyValue', keyRows, keyRows),
      value: linear('deltaQueryKeyValue', valueRows, 2 * keyRows),
      gate: linear('deltaGate', valueRows, 0),
    };
  }
  const values = valueRows / keyHeads;
  const every = 2 * keySize + 2 * values;
  const within = (rows: number, at: number) =>
    linear('deltaQueryKeyValueGate', rows, at, { rows: rows / keyHeads, every });
  return {
    query: within(keyRows, 0),
    key: within(keyRows, keySize),
    value: within(valueRows, 2 * keySize),
    gate: within(valueRows, 2 * keySize + values),
  };
}

/** One row for each value head. */
function smallProjections(
  { sizes, names }: SpecParts,
  { keyHeads, valueHeads, smallByKeyHead }: GatedDeltaNetTraits,
  index: number,
): Linears<'share' | 'decay'> {
  const common = { rows: valueHeads, columns: sizes.hiddenSize };
  if (!smallByKeyHead) {
    return {
      share: linearSpec(names, index, { ...common, role: 'deltaShare' }),
      decay: linearSpec(names, index, { ...common, role: 'deltaDecay' }),
    };
  }
  const rows = valueHeads / keyHeads;
  const runs = { rows, every: 2 * rows };
  return {
    share: linearSpec(names, index, { ...common, role: 'deltaShareDecay', runs }),
    decay: linearSpec(names, index, { ...common, role: 'deltaShareDecay', runs, firstRow: rows }),
  };
}
