import { render } from 'preact';
import { App } from './app.tsx';
import 'uplot/dist/uPlot.min.css';
import './style/tokens.css';
import './style/base.css';
import './style/shell.css';
import './style/lift.css';
import './style/chat.css';
import './style/markdown.css';
import './style/lists.css';

const page = document.getElementById('page');
if (page === null) throw new Error('index.html has no #page');
page.replaceChildren();
render(<App />, page);
