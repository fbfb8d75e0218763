// On how many workers a model is to be loaded, whoever asks for it.

import { useId } from 'preact/hooks';
import type { FleetView } from '../../../src/fleet/gateway/fleet-control.ts';
import { counted } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

export interface PlacementPanelProps {
  readonly fleet: FleetView;
  readonly onPlace: (model: string, replicas: number) => void;
}

export function PlacementPanel({ fleet, onPlace }: PlacementPanelProps) {
  const id = useId();
  const names = new Set(
    fleet.nodes
      .flatMap(({ models }) => models)
      .filter(({ adapterOf }) => adapterOf === undefined)
      .map(({ name }) => name),
  );
  const placed = fleet.placements.filter(({ replicas }) => replicas > 0);
  return (
    <section class="panel" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>Placement</h2>
      <p class="quiet">A model that is placed stays loaded. Others are loaded when somebody asks for them.</p>
      <ul class="placements">
        {placed.map(({ model, replicas, placedOn }) => (
          <li key={model}>
            <SafeText text={model} most={80} /> on {counted(replicas, 'worker')}
            {placedOn.length < replicas && `, of which ${placedOn.length} can`}
            {placedOn.length > 0 && (
              <span class="quiet">
                {' '}
                (<SafeText text={placedOn.join(', ')} most={200} />)
              </span>
            )}
          </li>
        ))}
      </ul>
      <form
        class="fields"
        onSubmit={(event) => {
          event.preventDefault();
          const given = new FormData(event.currentTarget);
          onPlace(String(given.get('model')), Number(given.get('replicas')));
        }}
      >
        <label>
          <span>Model</span>
          <select name="model" required>
            {[...names].sort().map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          <span>Workers</span>
          <input name="replicas" type="number" min={0} step={1} required defaultValue="1" />
        </label>
        <button type="submit" class="primary">
          Place
        </button>
      </form>
    </section>
  );
}
