// The machines that serve together: who is there, what each has loaded and does, and where models should be.

import { useState } from 'preact/hooks';
import type { FleetView as Fleet } from '../../../src/fleet/gateway/fleet-control.ts';
import { type Server, wordsFor } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { Problem } from '../shell/problem.tsx';
import { NodesTable } from './nodes-table.tsx';
import { PlacementPanel } from './placement-panel.tsx';
import { PlacesTable } from './places-table.tsx';

const ASK_EVERY_MS = 1000;

export function FleetView({ server }: { readonly server: Server }) {
  const { answer, problem, refresh } = usePolled<Fleet>(server, 'admin/fleet', ASK_EVERY_MS);
  const [failure, setFailure] = useState<string>();
  const tell = async (path: string, body: object) => {
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
            onDrain={(node, on) => void tell('admin/fleet/drain', { node, on })}
          />
          <PlacesTable nodes={answer.nodes} />
          <PlacementPanel
            fleet={answer}
            onPlace={(model, replicas) => void tell('admin/fleet/place', { model, replicas })}
          />
        </>
      )}
    </>
  );
}
