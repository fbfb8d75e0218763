// Which worker has which model, and how it gets on with it.

import type { ModelLoad, ModelStatus, NodeStatus } from '../../../src/fleet/messages.ts';
import { Headings } from '../shell/headings.tsx';
import { ScrollBox } from '../shell/scroll-box.tsx';
import { bytes, count, duration } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';

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

/** With those that run now; undefined where no step was measured yet. */
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
      <td class="number">{memoryBytes === undefined ? '–' : bytes(memoryBytes)}</td>
      <td>{computedBy === undefined ? '–' : <SafeText text={computedBy} most={60} />}</td>
    </tr>
  );
}
