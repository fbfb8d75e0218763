// Which backends run vision towers: where one does not, a spec that has a tower must not pass as one of text alone.

import type { ModelSpec } from '../model/spec.ts';
import type { BackendName } from './backend.ts';

export function refuseVision(spec: ModelSpec, backend: BackendName): void {
  if (spec.vision === undefined) return;
  throw new Error(`the ${backend} backend does not run vision towers; cpu, webgpu and reference do`);
}
