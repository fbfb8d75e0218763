// The view that the address names after its hash.

import { Observable } from '../observable.ts';

export const views = [
  'lift',
  'fleet',
  'chat',
  'requests',
  'batches',
  'models',
  'keys',
  'usage',
  'bench',
  'settings',
] as const;
export type View = (typeof views)[number];

export const viewTitles: Readonly<Record<View, string>> = {
  lift: 'Lift',
  fleet: 'Fleet',
  chat: 'Chat',
  requests: 'Requests',
  batches: 'Batches',
  models: 'Models',
  keys: 'Keys',
  usage: 'Usage',
  bench: 'Bench',
  settings: 'Settings',
};

export interface Route {
  readonly view: View;
  /** Of a request or a conversation. */
  readonly id?: string;
  /** What a view shows of its list. */
  readonly query?: Readonly<Record<string, string>>;
}

function routeOf(hash: string): Route | undefined {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?');
  const [, name, ...rest] = path.split('/');
  const view = views.find((one) => one === name);
  if (view === undefined) return undefined;
  const id = rest.join('/');
  return {
    view,
    ...(id === '' ? {} : { id: decoded(id) }),
    ...(query === '' ? {} : { query: Object.fromEntries(new URLSearchParams(query)) }),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function hashOf({ view, id, query = {} }: Route): string {
  const path = id === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(id)}`;
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '')).toString();
  return given === '' ? path : `${path}?${given}`;
}

export function followHash(): Observable<Route | undefined> {
  const route = new Observable(routeOf(location.hash));
  addEventListener('hashchange', () => route.set(routeOf(location.hash)));
  return route;
}
