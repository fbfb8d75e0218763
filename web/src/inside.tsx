// The page once access is granted: the header, and the current view.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { WhoAmI } from '../../src/server/live/live-event.ts';
import type { Server } from './access/server.ts';
import { BenchView } from './bench/bench-view.tsx';
import { ChatRoom } from './chat/chat-room.ts';
import { ChatView } from './chat/chat-view.tsx';
import { FleetView } from './fleet/fleet-view.tsx';
import { KeysView } from './keys/keys-view.tsx';
import { LiftBoard } from './live/lift-board.ts';
import { LiftView } from './live/lift-view.tsx';
import { ModelsView } from './models/models-view.tsx';
import { Pulls } from './models/pulls.ts';
import { useValue } from './observable.ts';
import { RequestPage } from './requests/request-page.tsx';
import { RequestsView } from './requests/requests-view.tsx';
import { Header } from './shell/header.tsx';
import { loadWhenIdle, onDemand } from './shell/on-demand.tsx';
import { followHash, hashOf, type Route, type View, views, viewTitles } from './shell/route.ts';
import { ThemeChoice } from './shell/theme.ts';

const BatchesView = onDemand(async () => (await import('./batches/batches-view.tsx')).BatchesView);
const SettingsView = onDemand(async () => (await import('./settings/settings-view.tsx')).SettingsView);
const UsageView = onDemand(async () => (await import('./usage/usage-view.tsx')).UsageView);

interface InsideProps {
  readonly server: Server;
  readonly who: WhoAmI;
  readonly onLeave: () => void;
  readonly onFirstKey: (key: string) => void;
}

function viewsOf({ admin, hasKeyStore, inFleet }: WhoAmI): readonly View[] {
  if (!admin) return ['chat', 'requests', 'batches', 'usage'];
  return views.filter((view) => (view !== 'keys' || hasKeyStore) && (view !== 'fleet' || inFleet));
}

export function Inside({ server, who, onLeave, onFirstKey }: InsideProps) {
  const theme = useMemo(() => new ThemeChoice(), []);
  const routes = useMemo(followHash, []);
  const room = useMemo(() => new ChatRoom(server), [server]);
  const board = useMemo(() => new LiftBoard(), []);
  const pulls = useMemo(() => new Pulls(server), [server]);
  const main = useRef<HTMLElement>(null);
  const allowed = viewsOf(who);
  const asked = useValue(routes);
  const home: Route = { view: who.admin ? 'lift' : 'chat' };
  // Others than administrators are led to a view of theirs.
  const route = asked !== undefined && (who.admin || allowed.includes(asked.view)) ? asked : home;
  // What is filtered is still the same place.
  const place = hashOf({ ...route, query: {} });
  const entered = useRef(place);
  useEffect(() => {
    document.title = `${viewTitles[route.view]} · Chairlift`;
    // After a change of view the keyboard goes on in it; not after the first one.
    if (entered.current !== place) main.current?.focus();
    entered.current = place;
  }, [place, route.view]);
  useEffect(() => () => room.close(), [room]);
  useEffect(() => loadWhenIdle([BatchesView, SettingsView, UsageView]), []);
  return (
    <>
      <a class="skip" href={place} onClick={(event) => skipTo(event, main.current)}>
        Skip to the content
      </a>
      <Header who={who} views={allowed} current={route.view} theme={theme} onLeave={onLeave} />
      <main ref={main} tabIndex={-1} class={`view view-${route.view}`}>
        {allowed.includes(route.view) ? viewOf(route) : <AbsentView view={route.view} />}
      </main>
    </>
  );

  function viewOf({ view, id, query }: Route) {
    switch (view) {
      case 'lift':
        return <LiftView server={server} board={board} theme={theme} inFleet={who.inFleet} />;
      case 'fleet':
        return <FleetView server={server} />;
      case 'chat':
        return <ChatView server={server} room={room} id={id} />;
      case 'requests':
        return id === undefined ? (
          <RequestsView server={server} admin={who.admin} query={query ?? {}} />
        ) : (
          <RequestPage key={id} server={server} id={id} />
        );
      case 'models':
        return <ModelsView server={server} pulls={pulls} canPull={who.canPull} />;
      case 'keys':
        return <KeysView server={server} onFirstKey={who.anonymous ? onFirstKey : undefined} />;
      case 'batches':
        return <BatchesView server={server} admin={who.admin} query={query ?? {}} />;
      case 'usage':
        return <UsageView server={server} theme={theme} query={query ?? {}} />;
      case 'settings':
        return <SettingsView server={server} query={query ?? {}} />;
      case 'bench':
        return <BenchView server={server} />;
    }
  }
}

/** A link to #main would be read as a view. */
function skipTo(event: Event, target: HTMLElement | null): void {
  event.preventDefault();
  target?.focus();
}

const reasons: Partial<Readonly<Record<View, string>>> = {
  fleet: 'This server is not part of a fleet. Start it with --join to join one: docs/fleet.md says how.',
  keys: 'This server keeps no keys: there are none to show or make.',
};

function AbsentView({ view }: { readonly view: View }) {
  return (
    <section>
      <h1>{viewTitles[view]}</h1>
      <p>{reasons[view] ?? 'This server has no such view.'}</p>
      <p>
        <a href={hashOf({ view: 'lift' })}>Go to {viewTitles.lift}</a>
      </p>
    </section>
  );
}
