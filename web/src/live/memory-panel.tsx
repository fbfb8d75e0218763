// What the models hold of the memory they may.

import type { LiveTick } from '../../../src/server/live/live-event.ts';
import { bytes } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

export function MemoryPanel({ tick }: { readonly tick: LiveTick }) {
  const { usedBytes, allowedBytes } = tick.memory;
  const inMemory = tick.models.filter(
    ({ memoryBytes, adapterOf }) => memoryBytes !== undefined && adapterOf === undefined,
  );
  return (
    <section class="panel" aria-labelledby="memory-title">
      <h2 id="memory-title">Memory by model</h2>
      <ul class="memory">
        {inMemory.map(({ name, memoryBytes = 0, state }) => (
          <li key={name}>
            <span>
              <SafeText text={name} most={60} />
            </span>
            <meter
              min={0}
              max={Math.max(1, allowedBytes)}
              value={memoryBytes}
              aria-label={`Memory of ${name}`}
            />
            <span class="number">
              {bytes(memoryBytes)}
              {state !== 'loaded' && ` (${state})`}
            </span>
          </li>
        ))}
      </ul>
      <p class="quiet">
        {bytes(usedBytes)} of {bytes(allowedBytes)} in all
      </p>
    </section>
  );
}
