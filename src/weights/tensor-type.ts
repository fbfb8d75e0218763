// Layouts of tensor types: a row is a run of blocks of `blockSize` values. Every weight format is converted to one of
// these.

interface TensorLayout {
  readonly blockSize: number;
  readonly blockBytes: number;
}

const mlxBits = [2, 3, 4, 5, 6, 8] as const;
const mlxGroupSizes = [32, 64, 128] as const;
const mlxScales = ['F32', 'F16', 'BF16'] as const;

/** MLX's affine quantization: groups of `bits`-wide values with a scale and a bias of one float type. */
export interface MlxLayout {
  readonly bits: (typeof mlxBits)[number];
  readonly groupSize: (typeof mlxGroupSizes)[number];
  readonly scale: (typeof mlxScales)[number];
}

type MlxName = `MLX${MlxLayout['bits']}_G${MlxLayout['groupSize']}`;
type MlxType = MlxName | `${MlxName}_${'F16' | 'BF16'}`;

export function mlxType({ bits, groupSize, scale }: MlxLayout): MlxType {
  const name: MlxName = `MLX${bits}_G${groupSize}`;
  return scale === 'F32' ? name : `${name}_${scale}`;
}

export function eachMlxType<Value>(make: (layout: MlxLayout) => Value): Readonly<Record<MlxType, Value>> {
  const layouts = mlxBits.flatMap((bits) =>
    mlxGroupSizes.flatMap((groupSize) => mlxScales.map((scale) => ({ bits, groupSize, scale }))),
  );
  return Object.fromEntries(layouts.map((layout) => [mlxType(layout), make(layout)])) as Record<
    MlxType,
    Value
  >;
}

export const mlxScaleBytes = (scale: MlxLayout['scale']): number => (scale === 'F32' ? 4 : 2);

// F8_G…: FP8 in groups with a float32 scale, see fp8.ts. NVFP4 has a scale for each half.
export const tensorLayouts = {
  F32: { blockSize: 1, blockBytes: 4 },
  F16: { blockSize: 1, blockBytes: 2 },
  BF16: { blockSize: 1, blockBytes: 2 },
  F8_G32: { blockSize: 32, blockBytes: 36 },
  F8_G128: { blockSize: 128, blockBytes: 132 },
  Q8_0: { blockSize: 32, blockBytes: 34 },
  Q4_0: { blockSize: 32, blockBytes: 18 },
  Q4_1: { blockSize: 32, blockBytes: 20 },
  Q5_0: { blockSize: 32, blockBytes: 22 },
  Q5_1: { blockSize: 32, blockBytes: 24 },
  Q2_K: { blockSize: 256, blockBytes: 84 },
  Q3_K: { blockSize: 256, blockBytes: 110 },
  Q4_K: { blockSize: 256, blockBytes: 144 },
  Q5_K: { blockSize: 256, blockBytes: 176 },
  Q6_K: { blockSize: 256, blockBytes: 210 },
  IQ1_S: { blockSize: 256, blockBytes: 50 },
  IQ1_M: { blockSize: 256, blockBytes: 56 },
  IQ2_XXS: { blockSize: 256, blockBytes: 66 },
  IQ2_XS: { blockSize: 256, blockBytes: 74 },
  IQ2_S: { blockSize: 256, blockBytes: 82 },
  IQ3_XXS: { blockSize: 256, blockBytes: 98 },
  IQ3_S: { blockSize: 256, blockBytes: 110 },
  IQ4_NL: { blockSize: 32, blockBytes: 18 },
  IQ4_XS: { blockSize: 256, blockBytes: 136 },
  TQ1_0: { blockSize: 256, blockBytes: 54 },
  TQ2_0: { blockSize: 256, blockBytes: 66 },
  MXFP4: { blockSize: 32, blockBytes: 17 },
  NVFP4: { blockSize: 32, blockBytes: 18 },
  // A group is stored as { scale, bias, packed values }: see mlx.ts.
  ...eachMlxType(({ bits, groupSize, scale }) => ({
    blockSize: groupSize,
    blockBytes: 2 * mlxScaleBytes(scale) + (groupSize * bits) / 8,
  })),
} as const satisfies Record<string, TensorLayout>;

export type TensorType = keyof typeof tensorLayouts;

export function rowBytes(type: TensorType, columns: number): number {
  const { blockSize, blockBytes } = tensorLayouts[type];
  return (columns / blockSize) * blockBytes;
}
