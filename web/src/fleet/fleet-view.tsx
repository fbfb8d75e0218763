// The fleet: its nodes, their models, and where models should be loaded.

import { useId, useState } from 'preact/hooks';
import type { FleetView as Fleet } from '../../../src/fleet/gateway/fleet-control.ts';
import { type Server, wordsFor } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { Problem } from '../shell/problem.tsx';
import { counted } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { NodesTable, PlacesTable } from './nodes-table.tsx';

const ASK_EVERY_MS = 1000;

export function FleetView({ server }: { readonly server: Server }) {
  const { answer, problem, refresh } = usePolled<Fleet>(server, 'admin/fleet', ASK_EVERY_MS);
  const [failure, setFailure] = useState<string>();
  const post = async (path: string, body: object) => {
    setFailure(undefined);
    try {
      await server.ask(path, { body });
    } catch (error) {
      setFailure(wordsFor(error));
    }
    refresh();
  };
  return (
    <>
      <h1>Fleet</h1>
      <Problem text={failure ?? problem} />
      {answer && (
        <>
          <NodesTable
            nodes={answer.nodes}
            onDrain={(node, on) => void post('admin/fleet/drain', { node, on })}
          />
          <PlacesTable nodes={answer.nodes} />
          <PlacementPanel
            fleet={answer}
            onPlace={(model, replicas) => void post('admin/fleet/place', { model, replicas })}
          />
        </>
      )}
    </>
  );
}

interface PlacementPanelProps {
  readonly fleet: Fleet;
  readonly onPlace: (model: string, replicas: number) => void;
}

function PlacementPanel({ fleet, onPlace }: PlacementPanelProps) {
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
      <p class="quiet">A model that is placed stays loaded. Others are loaded when they are asked for.</p>
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
