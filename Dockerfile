# pdflow on a CPU, as an unprivileged user; about 1.3 GB, most of it torch.
#
#     docker build -t pdflow .
#     docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" pdflow denoise scan.laz clean.laz
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
COPY examples ./examples
ENV PATH=/opt/pdflow/bin:$PATH
# PyTorch's own index has builds without CUDA, which PyPI has not. Its headers and tests stay behind.
RUN python -m venv /opt/pdflow \
    && pip install --no-cache-dir -c constraints.txt \
        --index-url https://download.pytorch.org/whl/cpu torch \
    && pip install --no-cache-dir -c constraints.txt '.[las,e57]' \
    && rm -rf /opt/pdflow/lib/python3.12/site-packages/torch/include \
        /opt/pdflow/lib/python3.12/site-packages/torch/test

FROM python:3.12-slim
COPY --from=build /opt/pdflow /opt/pdflow
# Compiled loops are kept below HOME; any user may write there, also one chosen with --user.
ENV PATH=/opt/pdflow/bin:$PATH HOME=/home/pdflow
RUN useradd --uid 1000 --create-home --home-dir "$HOME" pdflow && chmod 1777 "$HOME"
USER 1000
WORKDIR /data
ENTRYPOINT ["pdflow"]
CMD ["--help"]
