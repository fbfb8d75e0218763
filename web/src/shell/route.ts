// The view that the address names after its hash.

import { Observable } from '../observable.ts';

export const views = ['lift', 'fleet', 'chat', 'requests', 'models', 'keys', 'bench'] as const;
export type View = (typeof views)[number];

export const viewTitles: Readonly<Record<View, string>> = {
  lift: 'Lift',
  fleet: 'Fleet',
  chat: 'Chat',
  requests: 'Requests',
  models: 'Models',
  keys: 'Keys',
  bench: 'Bench',
};

export interface Route {
  readonly view: View;
  /** Of a request or a conversation. */
  readonly id?: string;
}

function routeOf(hash: string): Route | undefined {
  const [, name, ...rest] = hash.replace(/^#/, '').split('/');
  const view = views.find((one) => one === name);
  if (view === undefined) return undefined;
  const id = rest.join('/');
  return id === '' ? { view } : { view, id: decoded(id) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function hashOf({ view, id }: Route): string {
  return id === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(id)}`;
}

export function followHash(): Observable<Route | undefined> {
  const route = new Observable(routeOf(location.hash));
  addEventListener('hashchange', () => route.set(routeOf(location.hash)));
  return route;
}
