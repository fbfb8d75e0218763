// All conversations and the answers that are being streamed. It outlives the chat view, so that an answer goes on while
// another view is open.

import type { Server } from '../access/server.ts';
import { Observable } from '../observable.ts';
import { AnswerStream } from './answer-stream.ts';
import { chatBody, isContinuable } from './chat-body.ts';
import {
  type Answer,
  type Conversation,
  choosing,
  type LaneSettings,
  newConversation,
  randomId,
  type Said,
  shownTurns,
  type Turn,
  turnsUpTo,
  withAnswer,
  withTurn,
} from './conversation.ts';
import {
  followOtherTabs,
  forgetConversation,
  keepConversation,
  readConversations,
} from './kept-conversations.ts';

import { forgetPictures, imageIds, keepPictures, picturesOf } from './pictures.ts';

/** Between two renderings of a growing answer; more where rendering takes long. */
const DRAW_MS = 40;
const KEEP_MS = 2000;

interface Running {
  readonly conversationId: string;
  readonly turnId: string;
  readonly lane: number;
  readonly stream: AnswerStream;
  replaced: boolean;
}

interface RoomState {
  readonly conversations: readonly Conversation[];
  /** The browser's storage is full, or refused. */
  readonly unkept: boolean;
}

export class ChatRoom extends Observable<RoomState> {
  readonly #server: Server;
  readonly #running = new Set<Running>();
  readonly #unfollow: () => void;
  readonly #onPageHide = () => {
    for (const running of this.#running) this.#show(running, true);
  };

  constructor(server: Server) {
    super({ conversations: readConversations(), unkept: false });
    this.#server = server;
    this.#unfollow = followOtherTabs(
      (conversation) => this.#takeFromTab(conversation),
      (id) => this.#forgetAsTab(id),
    );
    // A reload finds what has been written so far.
    addEventListener('pagehide', this.#onPageHide);
  }

  find(id: string | undefined): Conversation | undefined {
    return this.value.conversations.find((one) => one.id === id);
  }

  open(lanes?: readonly LaneSettings[]): Conversation {
    const conversation = newConversation(lanes);
    this.set({ ...this.value, conversations: [conversation, ...this.value.conversations] });
    return conversation;
  }

  remove(id: string): void {
    this.stop(id);
    this.#forgetPictures(id);
    forgetConversation(id);
    this.set({ ...this.value, conversations: this.value.conversations.filter((one) => one.id !== id) });
  }

  /** An import may show the same images. */
  #forgetPictures(id: string): void {
    const others = this.value.conversations.filter((one) => one.id !== id);
    const shown = new Set(others.flatMap(({ turns }) => imageIds(turns)));
    const turns = this.find(id)?.turns ?? [];
    if (!imageIds(turns).some((one) => shown.has(one))) forgetPictures(turns);
  }

  /** Takes a conversation that was exported, under an id of its own. */
  take(conversation: Conversation): Conversation {
    const taken = { ...conversation, id: randomId(), changedMs: Date.now() };
    const unkept = !keepConversation(taken);
    this.set({ unkept, conversations: [taken, ...this.value.conversations] });
    return taken;
  }

  rename(id: string, name: string): void {
    this.#change(id, (conversation) => ({ ...conversation, name }));
  }

  setLanes(id: string, lanes: readonly LaneSettings[]): void {
    this.#change(id, (conversation) => ({ ...conversation, lanes }));
  }

  /** Asks every lane; with results of tools, the one that called them. */
  say(id: string, said: Said): void {
    const conversation = this.find(id);
    if (conversation !== undefined) this.#ask(conversation, said, shownTurns(conversation).at(-1)?.id);
  }

  /** Begins a branch with another text, and shows it. */
  edit(id: string, turn: Turn, said: Said): void {
    this.stop(id);
    const conversation = this.find(id);
    if (conversation !== undefined) this.#ask(conversation, said, turn.parentId);
  }

  /** Answers again: in a branch of its own, unless the answer before has nothing to keep. Other lanes keep theirs. */
  retry(id: string, { id: turnId, parentId, said, answers }: Turn, lane: number): void {
    this.stop(id, lane);
    for (const running of this.#running) {
      if (running.turnId === turnId && running.lane === lane) running.replaced = true;
    }
    const before = answers[lane];
    if (!before || isEmpty(before)) {
      this.#answer(id, turnId, lane);
      return;
    }
    const turn: Turn = { ...withParent(randomId(), parentId), said, answers: answers.with(lane, null) };
    this.#change(id, (one) => withTurn(one, turn));
    this.#answer(id, turn.id, lane);
  }

  /** Lets the model continue an answer that was stopped or cut off; where it cannot, it answers again. */
  goOn(id: string, turn: Turn, lane: number): void {
    const settings = this.find(id)?.lanes[lane];
    const begun = turn.answers[lane];
    if (settings && begun && isContinuable(settings, begun)) this.#answer(id, turn.id, lane, begun);
    else this.retry(id, turn, lane);
  }

  choose(id: string, turn: Turn): void {
    this.#change(id, (one) => choosing(one, turn));
  }

  stop(id: string, lane?: number): void {
    for (const running of this.#running) {
      if (running.conversationId === id && (lane === undefined || running.lane === lane))
        running.stream.stop();
    }
  }

  isAnswering(id: string): boolean {
    return [...this.#running].some(({ conversationId }) => conversationId === id);
  }

  close(): void {
    this.#unfollow();
    removeEventListener('pagehide', this.#onPageHide);
    for (const { stream } of this.#running) stream.stop();
  }

  #ask(conversation: Conversation, said: Said, parentId: string | undefined): void {
    const { id, lanes } = conversation;
    const turn: Turn = { ...withParent(randomId(), parentId), said, answers: [] };
    keepPictures([turn]);
    this.#change(id, (one) => withTurn(one, turn));
    for (const lane of lanes.keys()) {
      if (said.by === 'user' || said.lane === lane) this.#answer(id, turn.id, lane);
    }
  }

  /** Ignored while this tab streams an answer of it. */
  #takeFromTab(conversation: Conversation): void {
    const { id } = conversation;
    if (this.isAnswering(id)) return;
    const { conversations } = this.value;
    const isKnown = conversations.some((one) => one.id === id);
    this.set({
      ...this.value,
      conversations: isKnown
        ? conversations.map((one) => (one.id === id ? conversation : one))
        : [conversation, ...conversations],
    });
  }

  #forgetAsTab(id: string): void {
    if (this.isAnswering(id)) return;
    this.set({ ...this.value, conversations: this.value.conversations.filter((one) => one.id !== id) });
  }

  #answer(conversationId: string, turnId: string, lane: number, begun?: Answer): void {
    const asked = this.find(conversationId);
    const settings = asked?.lanes[lane];
    if (asked === undefined || settings === undefined) return;
    const stream = new AnswerStream(settings.model, begun);
    const turns = turnsUpTo(asked, turnId);
    const running: Running = { conversationId, turnId, lane, stream, replaced: false };
    this.#running.add(running);
    let timer: ReturnType<typeof setTimeout> | undefined;
    let keptMs = performance.now();
    let pauseMs = DRAW_MS;
    const draw = () => {
      timer = undefined;
      const beganMs = performance.now();
      const keeps = beganMs - keptMs > KEEP_MS;
      if (keeps) keptMs = beganMs;
      this.#show(running, keeps);
      // A slow machine renders less often, so that it still reacts to the keyboard.
      setTimeout(() => {
        pauseMs = Math.max(DRAW_MS, 3 * (performance.now() - beganMs));
      });
    };
    const onNews = () => {
      timer ??= setTimeout(draw, pauseMs);
    };
    void stream
      .read(
        this.#server,
        async (there) => {
          const continues = there !== undefined && isContinuable(settings, there);
          const pictures = await picturesOf(turns);
          const begunText = continues ? there.content : undefined;
          return { body: chatBody(settings, turns, lane, begunText, pictures), continues };
        },
        onNews,
      )
      .then(() => {
        clearTimeout(timer);
        this.#running.delete(running);
        if (begun !== undefined && stream.cannotGoOn) this.#answerAgain(running, begun);
        else this.#show(running, true);
      });
    // Stored at once, so that it can be retried where the page is closed before the first token.
    this.#show(running, true);
  }

  /** In a branch of its own: what was begun stays as it was. */
  #answerAgain({ conversationId, turnId, lane }: Running, begun: Answer): void {
    this.#change(conversationId, (one) => withAnswerOf(one, turnId, lane, begun));
    const turn = this.find(conversationId)?.turns.find(({ id }) => id === turnId);
    if (turn !== undefined) this.retry(conversationId, turn, lane);
  }

  #show({ conversationId, turnId, lane, stream, replaced }: Running, keep: boolean): void {
    if (replaced) return;
    const { answer } = stream;
    this.#change(conversationId, (one) => withAnswerOf(one, turnId, lane, answer), keep);
  }

  #change(id: string, change: (conversation: Conversation) => Conversation, keep = true): void {
    const conversations = this.value.conversations.map((one) => (one.id === id ? change(one) : one));
    const changed = conversations.find((one) => one.id === id);
    if (changed === undefined) return;
    const unkept = keep && changed.turns.length > 0 ? !keepConversation(changed) : this.value.unkept;
    this.set({ conversations, unkept });
  }
}

function withAnswerOf(
  conversation: Conversation,
  turnId: string,
  lane: number,
  answer: Answer,
): Conversation {
  const turns = conversation.turns.map((turn) =>
    turn.id === turnId ? withAnswer(turn, lane, answer) : turn,
  );
  return { ...conversation, turns };
}

function withParent(id: string, parentId: string | undefined): Pick<Turn, 'id' | 'parentId'> {
  return parentId === undefined ? { id } : { id, parentId };
}

function isEmpty({ content, reasoning, calls }: Answer): boolean {
  return content === '' && reasoning === '' && calls.length === 0;
}
