// Which reader each block format has.

import type { TensorType } from '../tensor-type.ts';
import type { GroupReader } from './group.ts';
import { readIQ4_NL, readIQ4_XS } from './iq4.ts';
import { readQ2_K, readQ3_K, readQ4_K, readQ5_K, readQ6_K } from './k-quants.ts';
import { readQ4_0, readQ4_1, readQ5_0, readQ5_1, readQ8_0 } from './legacy-blocks.ts';
import { mlxReader } from './mlx-groups.ts';
import { readMXFP4 } from './mxfp4.ts';

export type QuantType = Exclude<TensorType, 'F32' | 'F16' | 'BF16'>;

const mlx4 = mlxReader(4);
const mlx8 = mlxReader(8);

export const groupReaders: Readonly<Record<QuantType, GroupReader>> = {
  Q8_0: readQ8_0,
  Q4_0: readQ4_0,
  Q4_1: readQ4_1,
  Q5_0: readQ5_0,
  Q5_1: readQ5_1,
  Q2_K: readQ2_K,
  Q3_K: readQ3_K,
  Q4_K: readQ4_K,
  Q5_K: readQ5_K,
  Q6_K: readQ6_K,
  IQ4_NL: readIQ4_NL,
  IQ4_XS: readIQ4_XS,
  MXFP4: readMXFP4,
  MLX4_G32: mlx4,
  MLX4_G64: mlx4,
  MLX4_G128: mlx4,
  MLX8_G32: mlx8,
  MLX8_G64: mlx8,
  MLX8_G128: mlx8,
};
