// The settings that count, and where each comes from. They are read here, and changed where they are given.

import type { EffectiveSetting, EffectiveSettings } from '../../../src/server/effective-settings.ts';
import type { Server } from '../access/server.ts';
import { usePolled } from '../polled.ts';
import { type Column, DataTable, NONE } from '../shell/data-table.tsx';
import { Problem } from '../shell/problem.tsx';
import { hashOf } from '../shell/route.ts';
import { counted } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import './settings.css';

interface SettingsViewProps {
  readonly server: Server;
  readonly query: Readonly<Record<string, string>>;
}

export function SettingsView({ server, query }: SettingsViewProps) {
  const { answer, problem } = usePolled<EffectiveSettings>(server, 'admin/settings');
  const { q: sought = '', set = '' } = query;
  const filter = (change: Readonly<Record<string, string>>) => {
    // Every letter would be a step back in the history.
    history.replaceState(null, '', hashOf({ view: 'settings', query: { ...query, ...change } }));
    dispatchEvent(new HashChangeEvent('hashchange'));
  };
  const all = answer?.settings ?? [];
  const shown = all.filter((one) => (set === '' || isGiven(one)) && isAbout(one, sought));
  const groups = [...new Set(shown.map(({ group }) => group))];
  return (
    <>
      <h1>Settings</h1>
      <p class="quiet">
        What this server runs with. Flags go over the environment, that over the config file
        {answer?.file !== undefined && (
          <>
            {' '}
            (<SafeText text={answer.file} />)
          </>
        )}
        , that over defaults; a change counts after a restart.
      </p>
      <Problem text={problem} />
      <search class="row filters">
        <input
          type="search"
          aria-label="Search settings"
          placeholder="Name, value or meaning"
          value={sought}
          onInput={(event) => filter({ q: event.currentTarget.value })}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={set !== ''}
            onChange={(event) => filter({ set: event.currentTarget.checked ? 'given' : '' })}
          />
          Only those that were given
        </label>
        {answer !== undefined && (
          <span class="quiet" role="status">
            {shown.length} of {counted(all.length, 'setting')}
          </span>
        )}
      </search>
      {groups.map((group) => (
        <section key={group} class="panel" aria-label={group}>
          <h2>{group}</h2>
          <DataTable
            caption={`Settings: ${group}`}
            columns={columns}
            rows={shown.filter((one) => one.group === group)}
            keyOf={({ name }) => name}
          />
        </section>
      ))}
      {answer !== undefined && shown.length === 0 && <p class="empty">No setting is like that.</p>}
    </>
  );
}

function isGiven({ source }: EffectiveSetting): boolean {
  return source === 'flag' || source === 'environment' || source === 'file';
}

function isAbout(setting: EffectiveSetting, sought: string): boolean {
  const { name, flag, variable, meaning, value = '' } = setting;
  const text = [name, flag, variable, meaning, value].join(' ').toLowerCase();
  return sought
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function originOf({ source, flag, variable }: EffectiveSetting) {
  switch (source) {
    case 'flag':
      return (
        <>
          command line <code class="quiet">{flag}</code>
        </>
      );
    case 'environment':
      return (
        <>
          environment <code class="quiet">{variable}</code>
        </>
      );
    case 'file':
      return 'config file';
    default:
      return source;
  }
}

const columns: readonly Column<EffectiveSetting>[] = [
  {
    name: 'Setting',
    cell: ({ name, flag, variable }) => <span title={`${flag} or ${variable}`}>{name}</span>,
  },
  {
    name: 'Value',
    cell: ({ value }) =>
      value === undefined ? (
        <span class="quiet">unset</span>
      ) : (
        <code class="setting-value">
          <SafeText text={value} most={400} />
        </code>
      ),
  },
  {
    name: 'From',
    cell: (setting) => <span class={isGiven(setting) ? 'given' : 'quiet'}>{originOf(setting)}</span>,
  },
  {
    name: 'Default',
    cell: (setting) =>
      isGiven(setting) && setting.default !== undefined ? <code>{setting.default}</code> : NONE,
  },
  {
    name: 'Meaning',
    cell: ({ meaning, choices }) => (
      <span class="sentence">
        {meaning}
        {choices && <span class="quiet"> (one of {choices.join(', ')})</span>}
      </span>
    ),
  },
];
