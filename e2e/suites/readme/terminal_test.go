//go:build e2e

package readme_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/process"
)

// published is the URL that the README clones. A clone of it has the files of this repository instead, because the network cannot
// be used.
const published = "https://github.com/warrantgate/warrantgate"

// mark ends the output of a block.
const mark = "--- end of the block, status "

// denied is the beginning of output of a block whose command fails.
const denied = "Error from server"

// logged is a line that kubectl logs: on a busy machine, kcp's discovery misses APIs of a new workspace for a moment. A user may see it, too.
var logged = regexp.MustCompile(`(?m)^[IWE]\d{4} \d{2}:\d{2}:\d{2}\.\d+ +\d+ \w+\.go:\d+\] .*\n`)

// terminal is a bash in an empty directory. It ends at the first command that fails, except in blocks whose output is an error.
type terminal struct {
	home   string
	env    []string
	stdin  io.Writer
	output *bufio.Reader
	// replaced are texts of commands and their replacements, such as ports that another process may use.
	replaced *strings.Replacer
	apart    []*process.Process
}

// newTerminal starts a bash in which the given programs are commands. A program is the text of a shell script. Environment variables
// are added to those of this process, as KEY=value.
func newTerminal(ctx context.Context, programs map[string]string, env ...string) *terminal {
	GinkgoHelper()
	t := &terminal{home: GinkgoT().TempDir(), replaced: strings.NewReplacer()}
	bin := GinkgoT().TempDir()
	for name, script := range programs {
		Expect(os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700)).To(Succeed())
	}
	path := bin + string(os.PathListSeparator) + os.Getenv("PATH")
	t.env = append([]string{
		"HOME=" + t.home, "PATH=" + path, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + origin(ctx) + ".insteadOf", "GIT_CONFIG_VALUE_0=" + published,
	}, env...)

	read, write, err := os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	bash := exec.CommandContext(ctx, "bash", "-e")
	bash.Dir, bash.Env, bash.Stdout, bash.Stderr = t.home, append(os.Environ(), t.env...), write, write
	// Its commands end with it.
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bash.Cancel = func() error { return syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) }
	stdin, err := bash.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	t.stdin, t.output = stdin, bufio.NewReader(read)
	Expect(bash.Start()).To(Succeed())
	Expect(write.Close()).To(Succeed())
	DeferCleanup(func() {
		_ = stdin.Close()
		_ = bash.Wait() // the specs check the status of each block
		_ = read.Close()
	})
	return t
}

// origin is a git repository with the files that the quick starts need, including uncommitted changes.
func origin(ctx context.Context) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	Expect(os.CopyFS(filepath.Join(dir, "charts"), os.DirFS(filepath.Join(root(), "charts")))).To(Succeed())
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--no-gpg-sign", "--message=files"},
	} {
		command := exec.CommandContext(ctx, "git", args...)
		command.Dir = dir
		printed, err := command.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(printed))
	}
	return dir
}

// follow runs blocks of a document, one after the other, and expects the output that the document shows.
func (t *terminal) follow(blocks ...block) {
	GinkgoHelper()
	t.each(blocks, func(b block) {
		printed, status := t.run(b.commands, strings.HasPrefix(b.output, denied))
		// The output is the last of the message, because the first part of a long one may be cut.
		Expect(regexp.MatchString(similar(b.output), logged.ReplaceAllString(printed, ""))).To(BeTrue(),
			"output of\n%s\nis expected to be similar to\n%s%s\nbut is\n%s", b.commands, b.output, t.logs(), printed)
		if strings.HasPrefix(b.output, denied) {
			Expect(status).NotTo(BeZero(), "status of\n%s", b.commands)
		} else {
			Expect(status).To(BeZero(), "status of\n%s", b.commands)
		}
	})
}

// each starts the blocks that run in a terminal of their own, and calls do for the others.
func (t *terminal) each(blocks []block, do func(block)) {
	GinkgoHelper()
	for _, b := range blocks {
		By("$ " + b.commands)
		if b.apart {
			t.startApart(b.commands)
			continue
		}
		do(b)
	}
}

// run runs commands and returns their output and status. Bash ends, and the spec fails, if a command fails, unless mayFail is set.
func (t *terminal) run(commands string, mayFail bool) (printed string, status int) {
	GinkgoHelper()
	commands = strings.TrimSuffix(t.replaced.Replace(commands), "\n")
	if mayFail {
		commands = "set +e\n" + commands
	}
	_, err := fmt.Fprintf(t.stdin, "%s\nprintf '%%s%%d\\n' '%s' $?\nset -e\n", commands, mark)
	Expect(err).NotTo(HaveOccurred())
	for {
		line, err := t.output.ReadString('\n')
		last, state, found := strings.Cut(line, mark)
		printed += last
		if found {
			status, err = strconv.Atoi(strings.TrimSpace(state))
			Expect(err).NotTo(HaveOccurred())
			return printed, status
		}
		Expect(err).NotTo(HaveOccurred(), "bash ended in\n%s\n%s%s", commands, printed, t.logs())
	}
}

// startApart runs a command in another terminal with the same working directory, until the spec ends. It has to be a single command:
// then bash is replaced by it, and it gets the signal to stop.
func (t *terminal) startApart(command string) {
	GinkgoHelper()
	command = strings.ReplaceAll(t.replaced.Replace(command), "\\\n", "")
	Expect(strings.Count(command, "\n")).To(Equal(1), "a terminal of its own is for one command: %s", command)
	dir, _ := t.run("pwd", false)
	name := fmt.Sprintf("terminal-%d", len(t.apart)+2)
	running, err := process.Start(process.Options{
		Name: name, LogFile: filepath.Join(strings.TrimSpace(dir), name+".log"), Binary: "bash", Args: []string{"-e", "-c", command}, Env: t.env,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(running.Stop)
	t.apart = append(t.apart, running)
}

// logs are the outputs of programs in other terminals that have failed.
func (t *terminal) logs() string {
	var text strings.Builder
	for _, running := range t.apart {
		if err := running.Alive(); err != nil {
			text.WriteString("\n" + err.Error())
		}
	}
	return text.String()
}
