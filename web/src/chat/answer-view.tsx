// An answer: reasoning, text, tool calls, and what it took.

import { useState } from 'preact/hooks';
import { hashOf } from '../shell/route.ts';
import { CopyButton } from '../text/code-block.tsx';
import { counted, duration, percent, rate } from '../text/format.ts';
import { Markdown } from '../text/markdown.tsx';
import { LongText, SafeText } from '../text/safe-text.tsx';
import type { Answer, ToolResult } from './conversation.ts';
import { TokenChances } from './token-chances.tsx';
import { ToolCalls } from './tool-calls.tsx';

interface AnswerViewProps {
  readonly answer: Answer;
  readonly name: string;
  readonly onRetry: () => void;
  readonly onContinue: () => void;
  readonly onResults: (results: readonly ToolResult[]) => void;
}

export function AnswerView({ answer, name, onRetry, onContinue, onResults }: AnswerViewProps) {
  const [byToken, setByToken] = useState(false);
  const { state, content, reasoning, calls, tokens, problem } = answer;
  const streaming = state === 'streaming' || state === 'waiting';
  const isCut = state === 'stopped' || state === 'failed' || answer.finish === 'length';
  return (
    <section class="answer" aria-label={name} aria-busy={streaming} data-state={state}>
      <h3 class="answer-name">
        <span class="offscreen">{name}: </span>
        <SafeText text={answer.model} most={80} />
      </h3>
      {reasoning !== '' && (
        <details class="reasoning" open={streaming && content === ''}>
          <summary>Reasoning</summary>
          <div class="reasoning-text">
            <LongText text={reasoning} />
          </div>
        </details>
      )}
      {byToken ? <TokenChances tokens={tokens} /> : <Markdown text={content} />}
      {calls.length > 0 && <ToolCalls calls={calls} onResults={streaming ? undefined : onResults} />}
      {problem !== undefined && (
        <p class={state === 'waiting' ? 'notice' : 'problem'} role={state === 'waiting' ? 'status' : 'alert'}>
          <SafeText text={problem} most={600} />
        </p>
      )}
      {state === 'streaming' && answer.tokensPerSecond !== undefined && (
        <p class="costs">{rate(answer.tokensPerSecond)} tokens/s</p>
      )}
      {!streaming && (
        <div class="row tools">
          <button type="button" class="small ghost" onClick={onRetry}>
            Retry
          </button>
          {isCut && content !== '' && calls.length === 0 && (
            <button type="button" class="small ghost" onClick={onContinue}>
              Continue
            </button>
          )}
          <CopyButton text={() => content} />
          {tokens.length > 0 && (
            <button
              type="button"
              class="small ghost"
              aria-pressed={byToken}
              onClick={() => setByToken(!byToken)}
            >
              Token by token
            </button>
          )}
          <Costs answer={answer} />
        </div>
      )}
    </section>
  );
}

function Costs({ answer }: { readonly answer: Answer }) {
  const { state, finish, requestId, firstTokenMs, promptTokens, cachedTokens, answerTokens } = answer;
  const parts = [
    state === 'stopped' ? 'stopped' : finish === 'length' ? 'cut off at its limit' : undefined,
    answerTokens === undefined ? undefined : counted(answerTokens, 'token'),
    speedOf(answer),
    firstTokenMs === undefined ? undefined : `first after ${duration(firstTokenMs)}`,
    promptTokens ? `${percent((cachedTokens ?? 0) / promptTokens)} of the prompt cached` : undefined,
  ].filter((part) => part !== undefined);
  return (
    <span class="costs">
      {parts.join(' · ')}
      {requestId !== undefined && (
        <>
          {' '}
          <a href={hashOf({ view: 'requests', id: requestId })}>Details</a>
        </>
      )}
    </span>
  );
}

/** By the server's own clock; servers elsewhere may not tell. */
function speedOf({ tokensPerSecond, firstTokenMs, totalMs, answerTokens }: Answer): string | undefined {
  const decodeMs = totalMs !== undefined && firstTokenMs !== undefined ? totalMs - firstTokenMs : 0;
  const measured = answerTokens && decodeMs > 0 ? (1000 * (answerTokens - 1)) / decodeMs : undefined;
  const shown = tokensPerSecond ?? measured;
  return shown === undefined ? undefined : `${rate(shown)} tokens/s`;
}
