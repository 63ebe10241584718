// How points are coloured; the numbers are shared with the shader.
export const MODES = { plain: 0, rgb: 1, scalar: 2, classes: 3, height: 4 };

const PLACE = `#version 300 es
precision highp float;
layout(location = 0) in vec3 position;
uniform mat4 matrix;
uniform vec3 sectionLow;
uniform vec3 sectionHigh;
uniform float diameter;
uniform vec2 diameters;

vec3 place() {
  vec3 p = position - 0.5;
  bool inside = all(greaterThanEqual(p, sectionLow)) && all(lessThanEqual(p, sectionHigh));
  gl_Position = inside ? matrix * vec4(p, 1.0) : vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = clamp(diameter / gl_Position.w, diameters.x, diameters.y);
  return p;
}
`;

const DISC = `
  vec2 offset = gl_PointCoord - 0.5;
  if (dot(offset, offset) > 0.25) discard;
`;

export const POINTS = {
  vertex: `${PLACE}
layout(location = 1) in vec3 color;
layout(location = 2) in float value;
uniform int mode;
uniform vec2 toRamp;
uniform vec3 toHeight;
uniform vec2 toClass;
uniform vec3 plain;
uniform vec3 missing;
uniform sampler2D colors;
out vec3 shade;

void main() {
  vec3 p = place();
  shade = plain;
  if (mode == ${MODES.rgb}) {
    shade = color;
  } else if (mode == ${MODES.classes}) {
    float count = float(textureSize(colors, 0).x);
    float code = floor(value * 255.0 + toClass.x + 0.5);
    shade = texelFetch(colors, ivec2(int(mod(code, count)), 1), 0).rgb;
  } else if (mode == ${MODES.scalar} || mode == ${MODES.height}) {
    float source = mode == ${MODES.height} ? dot(p, toHeight) : value;
    float t = clamp(source * toRamp.x + toRamp.y, 0.0, 1.0);
    shade = texelFetch(colors, ivec2(int(t * 255.0 + 0.5), 0), 0).rgb;
    if (mode == ${MODES.scalar} && value == 0.0) shade = missing;
  }
}`,
  fragment: `#version 300 es
precision highp float;
in vec3 shade;
out vec4 result;

void main() {${DISC}
  result = vec4(shade, 1.0);
}`,
};

export const IDS = {
  vertex: `${PLACE}
flat out int id;

void main() {
  place();
  id = gl_VertexID + 1;
}`,
  fragment: `#version 300 es
precision highp float;
flat in int id;
out vec4 result;

void main() {${DISC}
  result = vec4(id & 255, (id >> 8) & 255, (id >> 16) & 255, 255) / 255.0;
}`,
};

// Eye-dome shading: a pixel darkens by how far it lies behind the pixels around it, as a slope, so
// that the picture looks alike at every distance. Both clouds are shaded, then one is chosen or
// both are mixed.
export const SCREEN = {
  vertex: `#version 300 es
void main() {
  vec2 corner = vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0);
  gl_Position = vec4(corner, 0.0, 1.0);
}`,
  fragment: `#version 300 es
precision highp float;
uniform sampler2D beforeColor;
uniform sampler2D beforeDepth;
uniform sampler2D afterColor;
uniform sampler2D afterDepth;
uniform vec3 background;
uniform vec2 clip;
uniform float pixel;
uniform float reach;
uniform float strength;
uniform float line;
uniform float blend;
out vec4 result;

float distanceAt(sampler2D depths, ivec2 at) {
  ivec2 last = textureSize(depths, 0) - 1;
  float depth = texelFetch(depths, clamp(at, ivec2(0), last), 0).r;
  return depth == 1.0 ? 1e9 : clip.x * clip.y / (clip.y - depth * (clip.y - clip.x));
}

vec3 shaded(sampler2D colors, sampler2D depths) {
  ivec2 at = ivec2(gl_FragCoord.xy);
  float own = distanceAt(depths, at);
  if (own == 1e9) return background;
  float behind = 0.0;
  for (int ring = 0; ring < 2; ring++) {
    float radius = reach * (ring == 0 ? 1.0 : 3.0);
    for (int k = 0; k < 8; k++) {
      float angle = (float(k) + 0.5 * float(ring)) * 0.785398;
      vec2 offset = radius * vec2(cos(angle), sin(angle));
      float other = distanceAt(depths, at + ivec2(round(offset)));
      behind += clamp((own - other) / (radius * pixel * own), 0.0, 3.0);
    }
  }
  return texelFetch(colors, at, 0).rgb * exp(-strength * behind);
}

void main() {
  bool left = gl_FragCoord.x < line;
  float weight = line < 0.0 ? blend : (left ? 0.0 : 1.0);
  vec3 color = vec3(0.0);
  if (weight < 1.0) color += (1.0 - weight) * shaded(beforeColor, beforeDepth);
  if (weight > 0.0) color += weight * shaded(afterColor, afterDepth);
  result = vec4(color, 1.0);
}`,
};
