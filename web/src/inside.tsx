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

/** Administrators may have an address of their own, and are served as clients at the other. */
function manages({ admin, here }: WhoAmI): boolean {
  return admin && here.admins;
}

function viewsOf(who: WhoAmI): readonly View[] {
  const { hasKeyStore, inFleet, here } = who;
  if (!manages(who)) return here.clients ? ['chat', 'requests', 'batches', 'usage'] : ['requests', 'usage'];
  const absent: Partial<Record<View, boolean>> = { keys: !hasKeyStore, fleet: !inFleet, chat: !here.clients };
  return views.filter((view) => absent[view] !== true);
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
  const home: Route = { view: manages(who) ? 'lift' : (allowed[0] as View) };
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
        {allowed.includes(route.view) ? (
          viewOf(route)
        ) : (
          <AbsentView view={route.view} home={home.view} here={who.here} />
        )}
      </main>
    </>
  );

  function viewOf({ view, id, query }: Route) {
    switch (view) {
      case 'lift':
        return <LiftView server={server} board={board} theme={theme} who={who} />;
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
        return (
          <BatchesView server={server} admin={manages(who)} hasFiles={who.here.clients} query={query ?? {}} />
        );
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
  chat: 'The chat is at the server’s address for clients.',
};
const forAdministrators = 'This view is at the server’s address for administrators (--admin-port).';

interface AbsentViewProps {
  readonly view: View;
  readonly home: View;
  readonly here: WhoAmI['here'];
}

function AbsentView({ view, home, here }: AbsentViewProps) {
  return (
    <section>
      <h1>{viewTitles[view]}</h1>
      <p>{here.admins ? (reasons[view] ?? 'This server has no such view.') : forAdministrators}</p>
      <p>
        <a href={hashOf({ view: home })}>Go to {viewTitles[home]}</a>
      </p>
    </section>
  );
}
