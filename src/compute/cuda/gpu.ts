// The NVIDIA GPUs of this machine as the driver counts them, and which of them serves.

import { messageOf } from '../../runtime/error-message.ts';
import { BackendUnavailableError } from '../backend-unavailable.ts';
import type { Addon } from '../cpu/binding.ts';
import { LEAST_CAPABILITY } from './kernel-images.ts';

export interface CudaGpu {
  /** As the driver counts them, the fastest first. */
  readonly number: number;
  readonly name: string;
  /** Ten times the compute capability. */
  readonly capability: number;
  readonly totalBytes: number;
}

/**
 * The GPU of this number, or the first whose name contains this, in any case; without either the fastest. Throws
 * BackendUnavailableError where there is none that runs the kernels.
 */
export function findCudaGpu(addon: Pick<Addon, 'gpus'>, wanted?: string): CudaGpu {
  const all = listGpus(addon);
  if (all.length === 0) throw new BackendUnavailableError('the NVIDIA driver finds no GPU');
  const meant = wanted === undefined ? all : meantBy(wanted, all);
  const names = all.map(({ number, name }) => `${number}: ${name}`).join(', ');
  if (meant.length === 0)
    throw new BackendUnavailableError(`no NVIDIA GPU is named ${wanted}; there are ${names}`);
  const found = meant.find(({ capability }) => capability >= LEAST_CAPABILITY);
  if (found !== undefined) return found;
  const { name, capability } = meant[0] as CudaGpu;
  throw new BackendUnavailableError(
    `${name} has compute capability ${(capability / 10).toFixed(1)}; the kernels need ${(LEAST_CAPABILITY / 10).toFixed(1)} (Turing) or more`,
  );
}

function listGpus(addon: Pick<Addon, 'gpus'>): CudaGpu[] {
  try {
    return addon.gpus().map(({ name, capability, bytes }, number) => ({
      number,
      name,
      capability,
      totalBytes: bytes,
    }));
  } catch (error) {
    throw new BackendUnavailableError(messageOf(error));
  }
}

/** A number means no name that contains it. */
function meantBy(wanted: string, all: readonly CudaGpu[]): CudaGpu[] {
  const numbered = all.filter(({ number }) => wanted === String(number));
  if (numbered.length > 0) return numbered;
  return all.filter(({ name }) => name.toLowerCase().includes(wanted.toLowerCase()));
}
