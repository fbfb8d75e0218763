// Where keys and values can be kept in which type.

import type { ModelSpec } from '../model/spec.ts';
import type { BackendName, KvType } from './backend.ts';
import { BackendUnavailableError } from './backend-unavailable.ts';

/** Undefined where they can; else why not, and what can be done. */
export function kvTypeRefusal(
  kvType: KvType,
  backend: BackendName | undefined,
  spec?: Pick<ModelSpec, 'caches'>,
): string | undefined {
  // The reference backend keeps floats, whatever it is asked for.
  if (kvType !== 'q4' || backend === 'reference') return undefined;
  if (backend === 'cuda' || backend === 'webgpu') {
    return 'KV in q4 is for the processor: take q8 with a GPU, or the backend cpu';
  }
  const hasMla = spec?.caches.some(({ valuesInKeys }) => valuesInKeys !== undefined);
  return hasMla ? 'latent attention (MLA) cannot have its KV in q4: take q8' : undefined;
}

export function requireKvType(kvType: KvType, backend: BackendName | undefined, spec: ModelSpec): void {
  const refusal = kvTypeRefusal(kvType, backend, spec);
  if (refusal !== undefined) throw new BackendUnavailableError(refusal);
}
