// The nodes of a fleet, and the models of each.

import type { ModelLoad, ModelStatus, NodeStatus } from '../../../src/fleet/messages.ts';
import { formatBytes } from '../../../src/text/byte-size.ts';
import { Headings, ScrollBox } from '../shell/table.tsx';
import { count, duration } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

interface NodesTableProps {
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
        {computes
          ? `${formatBytes(sum(({ memoryBytes: own = 0 }) => own))} of ${formatBytes(memoryBytes)}`
          : '–'}
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

export function PlacesTable({ nodes }: { readonly nodes: readonly NodeStatus[] }) {
  const places = nodes
    .flatMap(({ node, models }) => models.map((model) => ({ node, model })))
    .sort((a, b) => (a.model.name < b.model.name ? -1 : a.model.name > b.model.name ? 1 : 0));
  return (
    <section class="panel" aria-labelledby="places-title">
      <h2 id="places-title">Models</h2>
      {places.length === 0 ? (
        <p class="empty">No worker is there.</p>
      ) : (
        <ScrollBox name="Models">
          <table class="data">
            <Headings
              columns={[
                'Model',
                'Node',
                'State',
                { number: 'Running' },
                { number: 'Waiting' },
                { number: 'Free blocks' },
                { number: 'A step' },
                { number: 'Memory' },
                'Computed by',
              ]}
            />
            <tbody>
              {places.map(({ node, model }) => (
                <PlaceRow key={`${model.name} ${node}`} node={node} model={model} />
              ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
    </section>
  );
}

/** Of a step with the present load; undefined where no step was measured. */
function stepTime({ running, speeds }: ModelLoad): number | undefined {
  const { stepBaseMs, stepRowMs } = speeds;
  if (stepBaseMs === undefined || stepRowMs === undefined) return undefined;
  return stepBaseMs + Math.max(1, running) * stepRowMs;
}

function PlaceRow({ node, model }: { readonly node: string; readonly model: ModelStatus }) {
  const { name, state, load, memoryBytes, computedBy } = model;
  const waiting = load?.waiting.reduce((sum, one) => sum + one, 0);
  const stepMs = load && stepTime(load);
  return (
    <tr>
      <th scope="row">
        <SafeText text={name} most={80} />
      </th>
      <td>
        <SafeText text={node} most={80} />
      </td>
      <td>
        <span class="lamp" data-lamp={state}>
          {state}
        </span>
      </td>
      <td class="number">{load ? count(load.running) : '–'}</td>
      <td class="number">{waiting === undefined ? '–' : count(waiting)}</td>
      <td class="number">{load ? count(load.freeBlocks) : '–'}</td>
      <td class="number">{stepMs === undefined ? '–' : duration(stepMs)}</td>
      <td class="number">{memoryBytes === undefined ? '–' : formatBytes(memoryBytes)}</td>
      <td>{computedBy === undefined ? '–' : <SafeText text={computedBy} most={60} />}</td>
    </tr>
  );
}
