// How each tensor type lays a row out in bytes: a row is a run of blocks of `blockSize` values.
// Every weight format is brought to this shape, so that readers and kernels know blocks alone.

export interface TensorLayout {
  readonly blockSize: number;
  readonly blockBytes: number;
}

// An MLX group is stored as { float32 scale, float32 bias, packed values }: see mlx.ts.
const mlxGroup = (bits: number, group: number): TensorLayout => ({
  blockSize: group,
  blockBytes: 8 + (group * bits) / 8,
});

// F8_G… are floats of eight bits in groups with a float32 scale: see fp8.ts. NVFP4 has two scales of its own, one for each half.
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
  MLX2_G32: mlxGroup(2, 32),
  MLX2_G64: mlxGroup(2, 64),
  MLX2_G128: mlxGroup(2, 128),
  MLX3_G32: mlxGroup(3, 32),
  MLX3_G64: mlxGroup(3, 64),
  MLX3_G128: mlxGroup(3, 128),
  MLX4_G32: mlxGroup(4, 32),
  MLX4_G64: mlxGroup(4, 64),
  MLX4_G128: mlxGroup(4, 128),
  MLX5_G32: mlxGroup(5, 32),
  MLX5_G64: mlxGroup(5, 64),
  MLX5_G128: mlxGroup(5, 128),
  MLX6_G32: mlxGroup(6, 32),
  MLX6_G64: mlxGroup(6, 64),
  MLX6_G128: mlxGroup(6, 128),
  MLX8_G32: mlxGroup(8, 32),
  MLX8_G64: mlxGroup(8, 64),
  MLX8_G128: mlxGroup(8, 128),
} as const satisfies Record<string, TensorLayout>;

export type TensorType = keyof typeof tensorLayouts;

/** Bytes of one row of `columns` values; `columns` must be a whole number of blocks. */
export function rowBytes(type: TensorType, columns: number): number {
  const { blockSize, blockBytes } = tensorLayouts[type];
  return (columns / blockSize) * blockBytes;
}
