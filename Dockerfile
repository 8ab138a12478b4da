# noise2same, headless. For the CPU:      docker build -t noise2same .
# for NVIDIA GPUs:                        docker build -t noise2same:cuda --build-arg TORCH=cu128 .
# with more than that:                    docker build --build-arg EXTRAS=openvino,export,formats .
# Files are read and written in /data:    docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" noise2same \
#                                             denoise noisy.tif -o clean.tif
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
ARG TORCH=cpu
ARG EXTRAS=openvino,cluster
WORKDIR /build
RUN python -m venv /opt/noise2same
ENV PATH=/opt/noise2same/bin:$PATH
RUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/${TORCH}
COPY pyproject.toml README.md LICENSE ./
COPY tools/pypi_readme.py tools/pypi_readme.py
COPY src src
RUN pip install --no-cache-dir ".[${EXTRAS}]"

FROM python:${PYTHON}-slim
COPY --from=build /opt/noise2same /opt/noise2same
ENV PATH=/opt/noise2same/bin:$PATH \
    MPLBACKEND=agg \
    MPLCONFIGDIR=/tmp/matplotlib \
    PYTHONUNBUFFERED=1
RUN useradd --create-home --uid 1000 denoiser \
    && mkdir /data \
    && chown denoiser /data
USER denoiser
WORKDIR /data
RUN noise2same doctor
ENTRYPOINT ["noise2same"]
CMD ["--help"]
