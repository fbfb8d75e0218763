// Who is there.

import type { NodeStatus } from '../../../src/fleet/messages.ts';
import { Headings } from '../shell/headings.tsx';
import { ScrollBox } from '../shell/scroll-box.tsx';
import { bytes, count } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

export interface NodesTableProps {
  readonly nodes: readonly NodeStatus[];
  /** `on`: it is to take nothing new. */
  readonly onDrain: (node: string, on: boolean) => void;
}

export function NodesTable({ nodes, onDrain }: NodesTableProps) {
  return (
    <section class="panel" aria-labelledby="nodes-title">
      <h2 id="nodes-title">Nodes</h2>
      <ScrollBox name="Nodes">
        <table class="data">
          <Headings
            columns={[
              'Name',
              'Does',
              'State',
              { number: 'Running' },
              { number: 'Waiting' },
              { number: 'Memory' },
              'Version',
              { hidden: 'Actions' },
            ]}
          />
          <tbody>
            {nodes.map((status) => (
              <NodeRow key={status.node} status={status} onDrain={onDrain} />
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </section>
  );
}

function NodeRow({ status, onDrain }: { readonly status: NodeStatus } & Pick<NodesTableProps, 'onDrain'>) {
  const { node, roles, draining, memoryBytes, models, version } = status;
  const computes = roles.includes('worker');
  const sum = (of: (model: (typeof models)[number]) => number) =>
    models.reduce((all, model) => all + of(model), 0);
  const waiting = ({ load }: (typeof models)[number]) =>
    (load?.waiting ?? []).reduce((all, one) => all + one, 0);
  return (
    <tr>
      <th scope="row">
        <SafeText text={node} most={80} />
      </th>
      <td>{roles.join(', ')}</td>
      <td>
        <span class="lamp" data-lamp={draining ? 'paused' : 'live'}>
          {draining ? 'draining' : 'serving'}
        </span>
      </td>
      <td class="number">{computes ? count(sum(({ load }) => load?.running ?? 0)) : '–'}</td>
      <td class="number">{computes ? count(sum(waiting)) : '–'}</td>
      <td class="number">
        {computes ? `${bytes(sum(({ memoryBytes: own = 0 }) => own))} of ${bytes(memoryBytes)}` : '–'}
      </td>
      <td>
        <SafeText text={version} most={30} />
      </td>
      <td class="actions">
        {computes && (
          <button type="button" class="small" onClick={() => onDrain(node, !draining)}>
            {draining ? 'Resume' : 'Drain'}
            <span class="offscreen"> {node}</span>
          </button>
        )}
      </td>
    </tr>
  );
}
