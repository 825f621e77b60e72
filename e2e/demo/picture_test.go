package main

import (
	"encoding/xml"
	"errors"
	"html"
	"io"
	"os"
	"strings"
	"testing"
)

// TestPictureIsCurrent checks that the picture shows all steps of the demo. "make pictures" writes it.
func TestPictureIsCurrent(t *testing.T) {
	content, err := os.ReadFile("kcp.svg")
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range stories["kcp"].steps {
		if !strings.Contains(string(content), html.EscapeString(step.title)) {
			t.Errorf("kcp.svg does not show step %d, %s: run make pictures", i+1, step.title)
		}
	}
}

func TestPicture(t *testing.T) {
	svg := picture("make demo", "\n1. A step\n  with <tags> & \"quotes\"\n      $ kubectl\n")
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		`fill="#79c0ff">$ make demo<`, `fill="#7ee787" font-weight="bold">1. A step<`,
		`>  with &lt;tags&gt; &amp; &#34;quotes&#34;<`, `fill="#79c0ff">      $ kubectl<`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}
