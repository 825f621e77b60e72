// Package browser opens pages in a headless Chromium, for the end-to-end suites. It speaks Chromium's own protocol (CDP) through two pipes, so that
// it needs no driver and no port.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"
)

// programs are the names of the browsers that can be used, on Debian and on the machines of GitHub.
var programs = []string{"chromium", "google-chrome"}

// Browser is a running Chromium with one page.
type Browser struct {
	command *exec.Cmd
	// to and from are the pipes, in which a NUL ends each message.
	to   io.WriteCloser
	from *bufio.Reader
	// session is that of the page, sent the number of calls.
	session string
	sent    int
	events  []event
}

type event struct {
	Method string
	Params json.RawMessage
}

// Start starts a Chromium that keeps its files in an empty directory. It ends with Stop.
func Start(ctx context.Context, dir string) (*Browser, error) {
	var program string
	for _, name := range slices.Backward(programs) {
		if found, err := exec.LookPath(name); err == nil {
			program = found
		}
	}
	if program == "" {
		return nil, fmt.Errorf("there is no browser: install one of %v, on Debian: apt-get update && apt-get install -y --no-install-recommends chromium", programs)
	}
	theirIn, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &Browser{to: to, from: bufio.NewReader(from)}
	b.command = exec.CommandContext(context.WithoutCancel(ctx), program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+dir, "--remote-debugging-pipe", "about:blank")
	b.command.ExtraFiles = []*os.File{theirIn, theirOut} // Chromium reads 3 and writes 4
	err = b.command.Start()
	if err := errors.Join(err, theirIn.Close(), theirOut.Close()); err != nil {
		return nil, err
	}
	err = b.attach()
	return b, err
}

// attach opens the page.
func (b *Browser) attach() error {
	var target struct{ TargetID string }
	if err := b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := b.Call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	b.session = attached.SessionID
	return errors.Join(b.Call("Page.enable", nil, nil), b.Call("Network.enable", nil, nil))
}

// Call calls a method of the protocol. result may be nil.
func (b *Browser) Call(method string, params map[string]any, result any) error {
	b.sent++
	message := map[string]any{"id": b.sent, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	encoded, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(encoded, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		answer, err := b.read()
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		switch {
		case answer.ID != b.sent:
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", method, answer.Error)
		case result != nil:
			return json.Unmarshal(answer.Result, result)
		default:
			return nil
		}
	}
}

type message struct {
	ID int
	event
	Result, Error json.RawMessage
}

// read reads a message, and keeps it if it is an event.
func (b *Browser) read() (message, error) {
	text, err := b.from.ReadBytes(0)
	if err != nil {
		return message{}, err
	}
	var read message
	if err := json.Unmarshal(text[:len(text)-1], &read); err != nil {
		return message{}, err
	}
	if read.Method != "" {
		b.events = append(b.events, read.event)
	}
	return read, nil
}

// Open opens a URL, and returns when it is loaded.
func (b *Browser) Open(url string) error {
	b.events = nil
	var navigated struct{ ErrorText string }
	if err := b.Call("Page.navigate", map[string]any{"url": url}, &navigated); err != nil || navigated.ErrorText != "" {
		return errors.Join(err, errors.New(navigated.ErrorText))
	}
	for !slices.ContainsFunc(b.events, func(e event) bool { return e.Method == "Page.loadEventFired" }) {
		if _, err := b.read(); err != nil {
			return err
		}
	}
	return nil
}

// Requests returns the URLs that the page requested since it was opened, its own included.
func (b *Browser) Requests() ([]string, error) {
	var urls []string
	for _, e := range b.events {
		if e.Method != "Network.requestWillBeSent" {
			continue
		}
		var sent struct{ Request struct{ URL string } }
		if err := json.Unmarshal(e.Params, &sent); err != nil {
			return nil, err
		}
		urls = append(urls, sent.Request.URL)
	}
	return urls, nil
}

// Evaluate returns the value of an expression of JavaScript in the page, or of its promise.
func (b *Browser) Evaluate(expression string, value any) error {
	var evaluated struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	params := map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}
	if err := b.Call("Runtime.evaluate", params, &evaluated); err != nil {
		return err
	}
	if evaluated.ExceptionDetails != nil {
		return fmt.Errorf("%s: %s", expression, evaluated.ExceptionDetails)
	}
	return json.Unmarshal(evaluated.Result.Value, value)
}

// Press presses a key, such as ArrowDown, with the code that Windows has for it.
func (b *Browser) Press(key string, code int) error {
	params := map[string]any{"type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
	if err := b.Call("Input.dispatchKeyEvent", params, nil); err != nil {
		return err
	}
	params["type"] = "keyUp"
	return b.Call("Input.dispatchKeyEvent", params, nil)
}

// Node is a node of the accessibility tree, with what a screen reader reads.
type Node struct{ Role, Name string }

// Nodes returns the accessibility tree of the page, in the order in which it is read.
func (b *Browser) Nodes() ([]Node, error) {
	type value struct{ Value any }
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name value
		}
	}
	if err := b.Call("Accessibility.getFullAXTree", nil, &tree); err != nil {
		return nil, err
	}
	var nodes []Node
	for _, node := range tree.Nodes {
		if !node.Ignored {
			nodes = append(nodes, Node{Role: fmt.Sprint(node.Role.Value), Name: fmt.Sprint(node.Name.Value)})
		}
	}
	return nodes, nil
}

// Stop ends the browser, by force if it takes long. How it exits does not matter.
func (b *Browser) Stop() error {
	defer time.AfterFunc(30*time.Second, func() { _ = b.command.Process.Kill() }).Stop()
	b.session = ""
	err := errors.Join(b.Call("Browser.close", nil, nil), b.to.Close())
	_ = b.command.Wait()
	return err
}
