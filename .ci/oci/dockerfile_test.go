package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// root is the repository.
const root = "../.."

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// only returns the group of an expression, which has to match once.
func only(t *testing.T, expression, text string) string {
	t.Helper()
	found := regexp.MustCompile(expression).FindAllStringSubmatch(text, -1)
	if len(found) != 1 {
		t.Fatalf("%d matches of %s, want 1, in:\n%s", len(found), expression, text)
	}
	return found[0][1]
}

// stages are the build stage and the final stage of the Dockerfile.
func stages(t *testing.T) (build, final instructions.Stage) {
	t.Helper()
	file, err := parser.Parse(strings.NewReader(read(t, "Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	all, arguments, err := instructions.Parse(file.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || len(arguments) != 0 {
		t.Fatalf("the Dockerfile has %d stages, and %v before them; want 2 stages", len(all), arguments)
	}
	return all[0], all[1]
}

// TestTheDockerfileMakesTheSameImage compares the final stage with the image of the release.
func TestTheDockerfileMakesTheSameImage(t *testing.T) {
	program := []byte("program")
	image, err := newImageFor(about{version: "v1.2.3", revision: "c0ffee"}, "amd64", program)
	if err != nil {
		t.Fatal(err)
	}
	want, err := newContents(image)
	if err != nil {
		t.Fatal(err)
	}
	_, final := stages(t)
	if final.BaseName != "scratch" {
		t.Errorf("the final stage is FROM %s, want scratch", final.BaseName)
	}
	built := map[string][]byte{"/warrantgate": program, "/ca-certificates.crt": certificates()}
	given := map[string]string{"VERSION": "v1.2.3", "REVISION": "c0ffee"}
	got := contents{Labels: map[string]string{}, Files: map[string]string{}}
	var declared []string // arguments that the stage knows
	for _, command := range final.Commands {
		if c, expands := command.(instructions.SupportsSingleWordExpansion); expands {
			if err := c.Expand(func(word string) (string, error) {
				expanded, _, err := shell.NewLex('\\').ProcessWord(word, shell.EnvsFromSlice(declared))
				return expanded, err
			}); err != nil {
				t.Fatal(err)
			}
		}
		switch c := command.(type) {
		case *instructions.ArgCommand:
			for _, argument := range c.Args {
				declared = append(declared, argument.Key+"="+given[argument.Key])
			}
		case *instructions.LabelCommand:
			for _, label := range c.Labels {
				got.Labels[label.Key] = label.Value
			}
		case *instructions.CopyCommand:
			mode, err := strconv.ParseUint(c.Chmod, 8, 32)
			content, known := built[strings.Join(c.SourcePaths, " ")]
			if err != nil || c.From != "build" || !known || c.Chown != "" {
				t.Fatalf("%s: want one file of the build stage that this test knows, and --chmod", c)
			}
			got.Files[strings.TrimPrefix(c.DestPath, "/")] = describe(os.FileMode(mode), content)
		case *instructions.UserCommand:
			got.User = c.User
		case *instructions.EntrypointCommand:
			if c.PrependShell {
				t.Errorf("%s: there is no shell", c)
			}
			got.Entrypoint = c.CmdLine
		default:
			t.Errorf("the image of the release has nothing like %s", command)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("image (-release +Dockerfile):\n%s", diff)
	}
}

// TestTheDockerfileBuildsTheSameProgram compares the build stage with "make build", and with what the test above supposes.
func TestTheDockerfileBuildsTheSameProgram(t *testing.T) {
	build, _ := stages(t)
	goVersion := only(t, `(?m)^go (\d+\.\d+)`, read(t, "go.mod"))
	if want := "docker.io/library/golang:" + goVersion; build.BaseName != want || build.Name != "build" {
		t.Errorf("the first stage is FROM %s AS %s, want %s AS build, the version of go.mod", build.BaseName, build.Name, want)
	}
	var arguments, commands []string
	for _, command := range build.Commands {
		switch c := command.(type) {
		case *instructions.ArgCommand:
			for _, argument := range c.Args {
				arguments = append(arguments, argument.Key)
			}
		case *instructions.RunCommand:
			commands = append(commands, strings.Join(strings.Fields(strings.ReplaceAll(strings.Join(c.CmdLine, " "), "\\\n", " ")), " "))
		}
	}
	makefile := only(t, `(?m)^BUILD = (.*)$`, read(t, "Makefile"))
	makefile = regexp.MustCompile(`\$\((\w+)\)`).ReplaceAllString(strings.Replace(makefile, "$(GO)", "go", 1), "$$$1")
	want := []string{
		"cd .ci/oci && go run -mod=readonly . certificates >/ca-certificates.crt",
		strings.Replace(makefile, " go build ", " GOOS=$TARGETOS GOARCH=$TARGETARCH go build ", 1) + " -o /warrantgate ./cmd/warrantgate",
	}
	if diff := cmp.Diff(want, commands); diff != "" {
		t.Errorf("commands (-Makefile +Dockerfile):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"GOPROXY", "VERSION", "REVISION", "TARGETOS", "TARGETARCH"}, arguments); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

// TestTheContextHasWhatTheProgramIsMadeOf compares .dockerignore with the packages of the program.
func TestTheContextHasWhatTheProgramIsMadeOf(t *testing.T) {
	want := []string{".ci/oci", "go.mod", "go.sum"}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}", "./cmd/warrantgate")
	list.Dir = root
	packages, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Fields(packages) {
		folder, _, _ := strings.Cut(strings.TrimPrefix(string(line), "warrantgate.dev/"), "/")
		if !slices.Contains(want, folder) {
			want = append(want, folder)
		}
	}
	var got []string
	for line := range strings.Lines(read(t, ".dockerignore")) {
		if file, included := strings.CutPrefix(strings.TrimSpace(line), "!"); included {
			got = append(got, file)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf(".dockerignore (-want +got):\n%s", diff)
	}
}
