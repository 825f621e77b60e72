//go:build e2e

package stories_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-analyze/charts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/duration"
)

const (
	// pictureEnv names the file to which the dashboard is drawn. "make pictures" sets it.
	pictureEnv = "DASHBOARD_PICTURE"
	// pictureRows are the rows of Grafana's grid that are drawn: what a person sees without scrolling.
	pictureRows = 28
	// columnWidth and rowHeight are the sizes of a cell of Grafana's grid, in pixels, and gap is between two panels.
	columnWidth, rowHeight, gap = 42, 24, 8
)

// panel is a panel of the dashboard.
type panel struct {
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit       string
			Thresholds struct {
				Steps []struct {
					Color string
					Value float64
				}
			}
		}
	}
	Targets []target
}

// target is a query of a panel.
type target struct{ RefID, Expr, LegendFormat string }

// dashboard returns the panels of the chart's dashboard. Their queries contain the intervals that Grafana would insert.
func dashboard() []panel {
	GinkgoHelper()
	var file struct{ Panels []panel }
	content, err := os.ReadFile(chartFiles + "dashboard.json")
	Expect(err).NotTo(HaveOccurred())
	content = []byte(strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h").Replace(string(content)))
	Expect(json.Unmarshal(content, &file)).To(Succeed())
	return file.Panels
}

// query returns the names and values of all results of a query since a time.
func (p prometheus) query(ctx context.Context, query target, since time.Time) (names []string, values [][]float64) {
	GinkgoHelper()
	since = since.Truncate(time.Second) // Prometheus rounds to milliseconds
	times := prometheusv1.Range{Start: since, End: time.Now().Truncate(time.Second), Step: 2 * time.Second}
	result, warnings, _, err := p.QueryRange(ctx, query.Expr, times)
	Expect(err).NotTo(HaveOccurred(), query.Expr)
	Expect(warnings).To(BeEmpty(), query.Expr)
	matrix, ranged := result.(model.Matrix)
	Expect(ranged).To(BeTrue(), query.Expr)
	for _, stream := range matrix {
		names = append(names, label.ReplaceAllStringFunc(query.LegendFormat, func(label string) string {
			return string(stream.Metric[model.LabelName(strings.Trim(label, "{}"))])
		}))
		line := slices.Repeat([]float64{charts.GetNullValue()}, int(times.End.Sub(since)/times.Step)+1)
		for _, sample := range stream.Values {
			if value := float64(sample.Value); !math.IsNaN(value) { // a quantile of nothing
				line[int(sample.Timestamp.Time().Sub(since)/times.Step)] = value
			}
		}
		values = append(values, line)
	}
	return names, values
}

// label matches a label in the format of a legend.
var label = regexp.MustCompile(`{{\w+}}`)

// draw writes an SVG of the first rows of the dashboard, as they were since a time.
func (p prometheus) draw(ctx context.Context, file string, since time.Time) {
	GinkgoHelper()
	theme := charts.GetTheme(charts.ThemeGrafana)
	picture := charts.NewPainter(charts.PainterOptions{
		OutputFormat: charts.ChartOutputSVG, Width: 24*columnWidth + gap, Height: pictureRows*rowHeight + gap,
	}, charts.PainterThemeOption(theme))
	picture.FilledRect(0, 0, picture.Width(), picture.Height(), charts.ColorBlack, charts.ColorBlack, 0)
	for _, panel := range dashboard() {
		at := panel.GridPos
		if at.Y+at.H > pictureRows {
			continue
		}
		painter := picture.Child(charts.PainterBoxOption(charts.NewBox(
			at.X*columnWidth+gap, at.Y*rowHeight+gap, (at.X+at.W)*columnWidth, (at.Y+at.H)*rowHeight)))
		painter.FilledRect(0, 0, painter.Width(), painter.Height(), theme.GetBackgroundColor(), theme.GetBackgroundColor(), 0)
		var names []string
		var values [][]float64
		for _, target := range panel.Targets {
			moreNames, moreValues := p.query(ctx, target, since)
			names, values = append(names, moreNames...), append(values, moreValues...)
		}
		panel.draw(painter, names, values)
	}
	svg, err := picture.Bytes()
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(file, svg, 0o644)).To(Succeed())
}

func (panel panel) draw(painter *charts.Painter, names []string, values [][]float64) {
	GinkgoHelper()
	title := charts.FontStyle{FontSize: 9, FontColor: charts.ColorWhite}
	if panel.Type == "stat" {
		last := values[0][len(values[0])-1]
		color := ""
		for _, step := range panel.FieldConfig.Defaults.Thresholds.Steps {
			if last >= step.Value {
				color = step.Color
			}
		}
		painter.FilledRect(0, 0, painter.Width(), painter.Height(), charts.ColorFromKnown(color), charts.ColorBlack, 0)
		painter.TextFit(panel.Title, 8, 20, painter.Width(), title)
		painter.TextFit(panel.text(last), 0, 64, painter.Width(), charts.FontStyle{FontSize: 28, FontColor: charts.ColorWhite}, charts.AlignCenter)
		return
	}
	if len(values) == 0 {
		painter.TextFit(panel.Title, 8, 20, painter.Width(), title)
		painter.TextFit("No data", 0, painter.Height()/2, painter.Width(), title, charts.AlignCenter)
		return
	}
	option := charts.NewLineChartOptionWithData(values)
	option.Theme = charts.GetTheme(charts.ThemeGrafana)
	option.Title = charts.TitleOption{Text: panel.Title, FontStyle: title}
	option.Legend = charts.LegendOption{SeriesNames: names, FontStyle: charts.FontStyle{FontSize: 8}}
	option.YAxis = []charts.YAxisOption{{Min: new(float64), LabelFontStyle: charts.FontStyle{FontSize: 8}, ValueFormatter: panel.text}}
	option.Symbol.Shape = charts.SymbolNone
	option.Padding = charts.NewBoxEqual(gap)
	Expect(painter.LineChart(option)).To(Succeed())
}

// text returns a value with its unit.
func (panel panel) text(value float64) string {
	switch unit, seconds := panel.FieldConfig.Defaults.Unit, time.Duration(value*float64(time.Second)); {
	case unit == "s" && seconds > time.Minute:
		return duration.HumanDuration(seconds)
	case unit == "s":
		return seconds.String()
	case unit == "reqps":
		return fmt.Sprintf("%.2g/s", value)
	default:
		return fmt.Sprintf("%.2g", value)
	}
}
