// The models: which are in memory, and what may be done with them.

import { useState } from 'preact/hooks';
import type { ListedModel } from '../../../src/server/admin/models.ts';
import { formatBytes } from '../../../src/text/byte-size.ts';
import { type Server, wordsFor } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { Confirm } from '../shell/confirm.tsx';
import { type Column, DataTable, NONE } from '../shell/data-table.tsx';
import { Problem } from '../shell/problem.tsx';
import { count, day, parameterCount } from '../text/format.ts';
import { Lazy, useLazy } from '../text/lazy.ts';
import { SafeText } from '../text/safe-text.tsx';
import { PullForm } from './pull-form.tsx';
import type { Pulls } from './pulls.ts';

const ASK_EVERY_MS = 2000;
const hubSearch = new Lazy(() => import('./hub-search.tsx'));

interface ModelsViewProps {
  readonly server: Server;
  readonly pulls: Pulls;
  readonly canPull: boolean;
}

export function ModelsView({ server, pulls, canPull }: ModelsViewProps) {
  const { answer, problem, refresh } = usePolled<{ data: readonly ListedModel[] }>(
    server,
    'admin/models',
    ASK_EVERY_MS,
  );
  const hub = useLazy(hubSearch);
  const [failure, setFailure] = useState<string>();
  const [busy, setBusy] = useState<string>();
  const [doomed, setDoomed] = useState<ListedModel>();
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
      {canPull && hub && <hub.HubSearch server={server} pulls={pulls} />}
      <section class="panel">
        <DataTable
          caption="Models of this server"
          columns={columnsOf({
            isDefault: (model) => model === models[0] && model.upstream === undefined,
            isBusy: ({ name }) => busy === name,
            onLoad: ({ name }) => act(name, () => server.ask('admin/models/load', { body: { model: name } })),
            onUnload: ({ name }) =>
              act(name, () => server.ask('admin/models/unload', { body: { model: name } })),
            onDelete: setDoomed,
          })}
          rows={models}
          keyOf={({ name }) => name}
        />
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

interface ModelActions {
  readonly isDefault: (model: ListedModel) => boolean;
  readonly isBusy: (model: ListedModel) => boolean;
  readonly onLoad: (model: ListedModel) => void;
  readonly onUnload: (model: ListedModel) => void;
  readonly onDelete: (model: ListedModel) => void;
}

function columnsOf(actions: ModelActions): readonly Column<ListedModel>[] {
  return [
    { name: 'Name', cell: (model) => <ModelName model={model} isDefault={actions.isDefault(model)} /> },
    {
      name: 'State',
      cell: ({ state, upstream, problem }) => (
        <span class="lamp" data-lamp={state}>
          {upstream !== undefined
            ? 'elsewhere'
            : problem !== undefined && state === 'failed'
              ? 'broken'
              : state}
        </span>
      ),
    },
    {
      name: 'Weights',
      cell: ({ about }) => (about === undefined ? NONE : <SafeText text={weightsOf(about)} most={60} />),
    },
    {
      name: 'Size',
      isNumber: true,
      cell: ({ about, sizeBytes = about?.sizeBytes }) =>
        sizeBytes === undefined ? NONE : formatBytes(sizeBytes),
    },
    {
      name: 'Context',
      isNumber: true,
      cell: ({ about }) => (about?.contextLength === undefined ? NONE : count(about.contextLength)),
    },
    {
      name: 'Memory',
      isNumber: true,
      cell: ({ memoryBytes }) => (memoryBytes === undefined ? NONE : formatBytes(memoryBytes)),
    },
    {
      name: 'In use',
      isNumber: true,
      cell: ({ busy, state }) => (state === 'failed' ? NONE : count(busy)),
    },
    {
      name: 'Computed by',
      cell: ({ computedBy }) => (computedBy === undefined ? NONE : <SafeText text={computedBy} most={60} />),
    },
    { name: 'Changed', cell: ({ createdSeconds }) => day(1000 * createdSeconds) },
    { name: 'Actions', isHidden: true, cell: (model) => <Buttons model={model} actions={actions} /> },
  ];
}

function weightsOf({ architecture, parameters, quantization }: NonNullable<ListedModel['about']>): string {
  return `${architecture} · ${parameterCount(parameters)} · ${quantization}`;
}

function ModelName({ model, isDefault }: { readonly model: ListedModel; readonly isDefault: boolean }) {
  const { name, aliases, pinned, adapterOf, upstream, fits, problem } = model;
  return (
    <>
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
      {fits === false && <span class="badge">too large for the memory limit</span>}
      {problem !== undefined && (
        <div class="problem sentence">
          <SafeText text={problem} most={300} />
        </div>
      )}
      {aliases.length > 0 && (
        <div class="quiet">
          also <SafeText text={aliases.join(', ')} most={120} />
        </div>
      )}
    </>
  );
}

/** What must fail now is not offered, or not yet. */
function Buttons({ model, actions }: { readonly model: ListedModel; readonly actions: ModelActions }) {
  const { name, state, upstream, problem, fits, busy, isDeletable } = model;
  if (upstream !== undefined) return null;
  const disabled = actions.isBusy(model);
  const inMemory = state === 'loaded' || state === 'loading';
  const inUse = busy > 0;
  const reason = inUse ? { title: 'It is in use' } : {};
  const isLoadable = problem === undefined && fits !== false;
  return (
    <>
      {inMemory ? (
        <button
          type="button"
          class="small"
          disabled={disabled || inUse}
          {...reason}
          onClick={() => actions.onUnload(model)}
        >
          Unload<span class="offscreen"> {name}</span>
        </button>
      ) : (
        isLoadable && (
          <button type="button" class="small" disabled={disabled} onClick={() => actions.onLoad(model)}>
            Load<span class="offscreen"> {name}</span>
          </button>
        )
      )}
      {isDeletable && (
        <button
          type="button"
          class="small danger"
          disabled={disabled || inUse}
          {...reason}
          onClick={() => actions.onDelete(model)}
        >
          Delete<span class="offscreen"> {name}</span>
        </button>
      )}
    </>
  );
}
