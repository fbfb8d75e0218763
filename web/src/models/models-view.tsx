// The models: which are in memory, and what may be done with them.

import { useState } from 'preact/hooks';
import type { ModelEntry } from '../../../src/pool/model-pool.ts';
import { type Server, wordsFor } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { Confirm } from '../shell/confirm.tsx';
import { Problem } from '../shell/problem.tsx';
import { Headings, ScrollBox } from '../shell/table.tsx';
import { bytes, day } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import { PullForm } from './pull-form.tsx';
import type { Pulls } from './pulls.ts';

const ASK_EVERY_MS = 2000;

interface ModelsViewProps {
  readonly server: Server;
  readonly pulls: Pulls;
  readonly canPull: boolean;
}

export function ModelsView({ server, pulls, canPull }: ModelsViewProps) {
  const { answer, problem, refresh } = usePolled<{ data: readonly ModelEntry[] }>(
    server,
    'admin/models',
    ASK_EVERY_MS,
  );
  const [failure, setFailure] = useState<string>();
  const [busy, setBusy] = useState<string>();
  const [doomed, setDoomed] = useState<ModelEntry>();
  const act = async (name: string, work: () => Promise<unknown>) => {
    setBusy(name);
    setFailure(undefined);
    try {
      await work();
    } catch (error) {
      setFailure(wordsFor(error));
    }
    setBusy(undefined);
    refresh();
  };
  const models = answer?.data ?? [];
  return (
    <>
      <h1>Models</h1>
      <Problem text={failure ?? problem} />
      {canPull && <PullForm pulls={pulls} onDone={refresh} />}
      <section class="panel">
        <ScrollBox name="Models">
          <table class="data">
            <caption class="offscreen">Models of this server</caption>
            <Headings
              columns={[
                'Name',
                'State',
                { number: 'Memory' },
                { number: 'In use' },
                'Computed by',
                'Changed',
                { hidden: 'Actions' },
              ]}
            />
            <tbody>
              {models.map((model, at) => (
                <ModelRow
                  key={model.name}
                  model={model}
                  isDefault={at === 0 && model.upstream === undefined}
                  busy={busy === model.name}
                  onLoad={() =>
                    act(model.name, () => server.ask('admin/models/load', { body: { model: model.name } }))
                  }
                  onUnload={() =>
                    act(model.name, () => server.ask('admin/models/unload', { body: { model: model.name } }))
                  }
                  onDelete={() => setDoomed(model)}
                />
              ))}
            </tbody>
          </table>
        </ScrollBox>
      </section>
      {doomed && (
        <Confirm
          title="Delete this model's files?"
          action="Delete"
          onConfirm={() =>
            act(doomed.name, () =>
              server.ask('api/delete', { method: 'DELETE', body: { model: doomed.name } }),
            )
          }
          onClose={() => setDoomed(undefined)}
        >
          <p>
            <SafeText text={doomed.name} /> is removed from the models folder for good.
          </p>
          <p class="quiet">
            <SafeText text={doomed.path} />
          </p>
        </Confirm>
      )}
    </>
  );
}

interface ModelRowProps {
  readonly model: ModelEntry;
  readonly isDefault: boolean;
  readonly busy: boolean;
  readonly onLoad: () => void;
  readonly onUnload: () => void;
  readonly onDelete: () => void;
}

function ModelRow({ model, isDefault, busy, onLoad, onUnload, onDelete }: ModelRowProps) {
  const { name, aliases, state, pinned, memoryBytes, adapterOf, upstream } = model;
  const inMemory = state === 'loaded' || state === 'loading';
  return (
    <tr>
      <th scope="row">
        <SafeText text={name} most={80} />
        {isDefault && <span class="badge">default</span>}
        {pinned && <span class="badge">pinned</span>}
        {adapterOf !== undefined && (
          <span class="quiet">
            {' '}
            adapter of <SafeText text={adapterOf} most={40} />
          </span>
        )}
        {upstream !== undefined && (
          <span class="quiet">
            {' '}
            of the upstream <SafeText text={upstream} most={40} />
          </span>
        )}
        {aliases.length > 0 && (
          <div class="quiet">
            also <SafeText text={aliases.join(', ')} most={120} />
          </div>
        )}
      </th>
      <td>
        <span class="lamp" data-lamp={state}>
          {upstream === undefined ? state : 'elsewhere'}
        </span>
      </td>
      <td class="number">{memoryBytes === undefined ? '–' : bytes(memoryBytes)}</td>
      <td class="number">{model.busy}</td>
      <td>{model.computedBy === undefined ? '–' : <SafeText text={model.computedBy} most={60} />}</td>
      <td class="nowrap">{day(1000 * model.createdSeconds)}</td>
      <td class="actions">
        {upstream === undefined && (
          <>
            {inMemory ? (
              <button type="button" class="small" disabled={busy} onClick={onUnload}>
                Unload<span class="offscreen"> {name}</span>
              </button>
            ) : (
              <button type="button" class="small" disabled={busy} onClick={onLoad}>
                Load<span class="offscreen"> {name}</span>
              </button>
            )}
            <button type="button" class="small danger" disabled={busy} onClick={onDelete}>
              Delete<span class="offscreen"> {name}</span>
            </button>
          </>
        )}
      </td>
    </tr>
  );
}
